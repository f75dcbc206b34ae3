"""Rows out of the files of a table: decoded, without deleted rows, under the table's own names and types."""
