"""The commands of `recompute`: thin, each over one part."""
