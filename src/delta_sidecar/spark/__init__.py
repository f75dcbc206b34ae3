"""The writer side, on PySpark with Delta's own connector."""
