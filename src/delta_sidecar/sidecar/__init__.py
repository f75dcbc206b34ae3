"""Our format: names, columns, pieces, the combined footer and the manifest. Bytes in, bytes out; no I/O."""
