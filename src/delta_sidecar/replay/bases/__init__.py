"""Bases, which a replay ends on.

Read in this order: `base` (what they have in common), `choice` (which are there, and the way down the list),
`checkpoint` with `content` (whether files are those of a checkpoint), `sidecar` with `pieces` (the rows of a metadata
sidecar).
"""
