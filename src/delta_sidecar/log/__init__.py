"""The Delta log as it lies on disk, without any I/O.

Read in this order: `names` (the files of the log), `segment` (the part of a listing that makes up a version), `actions`
(what a commit holds), `schema` (types, features, column mapping), `identity` (paths and keys of files),
`partition_values`, `stats` (statistics as columns), `stats_text` (statistics as text), `values` (single values as
text), `deletion_vectors`, `commit_times`.
"""
