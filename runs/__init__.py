"""runs: from a registered study to sealed per-sample records."""
