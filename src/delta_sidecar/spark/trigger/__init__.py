"""Checkpoints and metadata sidecars every so many commits: `trigger`, and `ownership` of who makes them."""
