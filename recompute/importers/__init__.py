"""Samples from outside the ledger: one reader a file format, and the registry."""
