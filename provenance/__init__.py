"""provenance: what a file, a tree, a build or a machine is, told so that it can be checked again later."""
