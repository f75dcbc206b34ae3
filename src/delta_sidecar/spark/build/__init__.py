"""Metadata sidecars made by Spark: the `driver` plans and publishes, `parts` are what its tasks write."""
