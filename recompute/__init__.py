"""Every number, from the samples: values and intervals that come out the same on every machine."""
