"""Notations of a predicate: SQL, lists of filters, mappings, pyarrow expressions; `notation` tells which it is."""
