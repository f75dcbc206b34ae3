"""Bases, which a replay ends on: `base` is what they have in common, then `checkpoint`, `sidecar` and its `pieces`."""
