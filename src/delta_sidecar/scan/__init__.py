"""The scanner: a table's live files as they are found.

Read in this order: `scanner` (`LazyDeltaScanner`), `config` (what is asked for), `run` (one scan from its opening to
its last batch), `open`, `request` (strategy and order, bound to the table), `pages` (tokens), `files` (a file as a
value), `stream` (sync and async consumers), `explain`, `estimate`, `retention`.
"""
