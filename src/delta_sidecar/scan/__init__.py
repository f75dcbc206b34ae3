"""The scanner: a table's live files as they are found."""
