"""What can be told of a table from its list of files, under the names that deltalake gives."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from delta_sidecar._arrow import int64s, numbers_of, valid_mask
from delta_sidecar.log.partition_values import lookup
from delta_sidecar.log.paths import is_absolute
from delta_sidecar.table.partition_filters import ChosenPartitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.predicate import Predicate
    from delta_sidecar.table.handle import TableHandle


def table_uri(address: str) -> str:
    """The address of a table as a URL that ends in `/`.

    Args:
        address: A local path, or an address with a scheme whose path is not encoded.
    """
    scheme, found, place = address.partition("://")
    plain = quote(place if found else address, safe="/@:!$&'()*+,;=~[]|")
    return f"{scheme if found else 'file'}://{plain.rstrip('/')}/"


def file_uris(handle: TableHandle, predicate: Predicate | None) -> list[str]:
    """Addresses of the files that a condition chooses: not encoded, local ones as plain paths."""
    root = handle.store.url.rstrip("/")
    paths = (path for batch in _chosen(handle, predicate, "path") for path in batch.column("path").to_pylist())
    return [path if is_absolute(path) else f"{root}/{path}" for path in paths]


def partitions(handle: TableHandle, predicate: Predicate | None) -> list[dict[str, str | None]]:
    """The combinations of partition values among the files that a condition chooses, each once."""
    names = handle.snapshot().partition_columns
    if not names:
        return []
    found: dict[tuple[str | None, ...], None] = {}
    for batch in _chosen(handle, predicate):
        values = batch.column("partition_values")
        texts = [lookup(values, name).texts for name in names]
        firsts = int64s(_firsts(texts))
        found |= dict.fromkeys(zip(*(column.take(firsts).to_pylist() for column in texts), strict=True))
    return [dict(zip(names, values, strict=True)) for values in found]


def _firsts(columns: list[pa.StringArray]) -> NDArray[np.int64]:
    """The rows whose values, taken together, are not those of an earlier row."""
    codes = []
    for column in columns:
        encoded = column.dictionary_encode().indices
        codes.append(np.where(valid_mask(encoded), numbers_of(encoded), -1))
    _, firsts = np.unique(np.stack(codes), axis=1, return_index=True)
    return np.sort(firsts)


def _chosen(handle: TableHandle, predicate: Predicate | None, *columns: str) -> Iterator[pa.RecordBatch]:
    snapshot = handle.snapshot()
    chosen = ChosenPartitions.of(predicate, snapshot, handle.row_options.time_zone)
    scanner = handle.scanner(predicate, snapshot=snapshot)
    return map(chosen, scanner.scan_batches((*columns, "partition_values")))
