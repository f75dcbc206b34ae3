"""A Spark session that can write Delta: `session`, the storage `access` that it needs, `launch` of its Java."""
