"""Parquet files, read a little at a time: `footer`, then `scan` over row groups, `file` for what is decoded.

`select` decodes only rows that are kept, `pages` finds them by page, `sparse` holds the bytes that were fetched, and
`times` finds timestamps whose value is in doubt.
"""
