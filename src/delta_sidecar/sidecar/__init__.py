"""The format of metadata sidecars; it works on bytes and batches, without I/O.

Read in this order: `schema` (the columns and their names), `rows` (from `add` actions and back), `order`,
`pieces` (the bytes of a data file), `groups` and `manifest` (the document beside it), `layout` (a manifest beside the
table's columns, and the layout of a sidecar that is to be built).
"""
