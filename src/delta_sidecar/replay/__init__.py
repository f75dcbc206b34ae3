"""The single home of correctness: which files are in a table at a version.

Everything is a flow (see `plan`). Read in this order: `open` (hint, listing, version), `snapshot` (protocol and
metadata in force; the public `Snapshot` and its builders), `request` (what a scan asks for), `scan` (the tail and the
base, in either direction), `tail` (live adds and keys of commits), `bases/`, `seen/`, `files` and `pruning` (batches
of files, and which of them may match). Beside them: `witnesses` (what proves a metadata sidecar), `versions` (time
travel), `estimate`, `failures` (what a file that cannot be read means).
"""
