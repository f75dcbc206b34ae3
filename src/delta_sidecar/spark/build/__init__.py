"""Metadata sidecars made by Spark: `build` plans and publishes, `parts` are what its tasks write."""
