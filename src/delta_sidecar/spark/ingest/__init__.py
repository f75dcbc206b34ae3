"""Telemetry into Delta, one time bucket a file: `pipeline`, then `write`; `buckets`, `tables`, `files`, `sources`."""
