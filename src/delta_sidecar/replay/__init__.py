"""The single home of correctness: which files are in a table at a version.

Everything is a chain of phases (see `plan`). A snapshot pins the version and finds the protocol and metadata in force;
a scan replays the tail and its base and lets the live files through.
"""
