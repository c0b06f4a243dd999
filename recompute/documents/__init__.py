"""Document formats: one file a format, and the registry."""
