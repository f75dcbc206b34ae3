"""The scanner: a table's live files as they are found.

Read in this order: `scanner` (`LazyDeltaScanner`), `config` (what is asked for), `run` (one scan from its opening to
its last batch), `request` (opening, strategy and order, bound to the table), `stream` (sync and async consumers, and
where they stand), `pages` (tokens), `files` (a file as a value), `explain`, `estimate`, `retention`.
"""
