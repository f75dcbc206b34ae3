"""The footer of a Parquet file: read in one request, and what files with the same columns have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from delta_sidecar.execute.parquet.times import TimeChecks

if TYPE_CHECKING:
    from delta_sidecar.store import Store


FOOTER_BYTES = 256 << 10
_FOOTER_SHARE = 10
_MAGIC_BYTES = 12
_FOOTER_END = 8
_MAGIC = b"PAR1"


class Footer(Struct, frozen=True):
    """A file's footer, with the end of the file that was read for it where that is the whole file."""

    metadata: pq.FileMetaData
    size: int
    whole: bytes | memoryview | None


def read_footer(store: Store, path: str, size: int, guess: int = FOOTER_BYTES) -> Footer:
    """Reads a file's footer, in one request where the last `guess` bytes, or a tenth of the file, hold it.

    Raises:
        pa.ArrowInvalid: The file is not Parquet, or torn.
        StorageError: It cannot be fetched.
    """
    # Two requests are always enough.
    return cast("Footer", read_footer_within(store, path, size, 2, guess))


def read_footer_within(
    store: Store, path: str, size: int, most_requests: int | None, guess: int | None = None
) -> Footer | None:
    """Reads a file's footer in one request, or two where it is large; None where that is more than may be made.

    Raises:
        pa.ArrowInvalid: The file is not Parquet, or torn.
        StorageError: It cannot be fetched.
    """
    if most_requests is not None and most_requests < 1:
        return None
    if size < _MAGIC_BYTES:
        msg = f"{size} bytes are no Parquet file"
        raise pa.ArrowInvalid(msg)
    # A footer grows with the file; one guess too small costs a round trip.
    start = max(0, size - max(guess or FOOTER_BYTES, size >> _FOOTER_SHARE))
    data = store.get_range(path, start, size)
    needed = size - _FOOTER_END - int.from_bytes(data[-_FOOTER_END:-4], "little")
    if 0 <= needed < start and data[-4:] == _MAGIC:
        if most_requests == 1:
            return None
        data, start = b"".join((store.get_range(path, needed, start), data)), needed
    # The end of a file is enough: nothing in front of the footer is looked at.
    return Footer(pq.read_metadata(pa.BufferReader(data)), size, data if start == 0 else None)


def footer_of(data: bytes | memoryview) -> Footer:
    """The footer of a file that was read whole.

    Raises:
        pa.ArrowInvalid: It is not Parquet, or torn.
    """
    return Footer(pq.read_metadata(pa.BufferReader(data)), len(data), data)


class Layout(Struct, frozen=True):
    """The columns of a file, and what files with the same columns and writer have in common."""

    leaves: tuple[str, ...]  # dotted names of the leaf columns, in order
    int96: frozenset[int]  # numbers of those that are INT96
    times: TimeChecks
    is_plain: bool  # Arrow reads all columns in plain types
    is_flat: bool  # no column has lists or maps: a row has one value of each

    @classmethod
    def of(cls, metadata: pq.FileMetaData, *, strict: bool = False) -> Layout:
        """Reads a footer; `strict` is for `TimeChecks`."""
        columns = [metadata.schema.column(leaf) for leaf in range(metadata.num_columns)]
        return cls(
            tuple(column.path for column in columns),
            frozenset(leaf for leaf, column in enumerate(columns) if column.physical_type == "INT96"),
            TimeChecks.of(metadata, strict=strict),
            all(plain_type(field.type) == field.type for field in metadata.schema.to_arrow_schema()),
            not any(column.max_repetition_level for column in columns),
        )


def leaf_paths(metadata: pq.FileMetaData) -> tuple[str, ...]:
    """Dotted names of the leaf columns of a file, in order."""
    schema = metadata.schema
    return tuple(schema.column(index).path for index in range(metadata.num_columns))


# Arrow's plain types in the place of its large, view and dictionary types, which a Parquet file may ask for.


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in plain types."""
    schema = pa.schema([plain_field(field) for field in batch.schema])
    return batch if schema.equals(batch.schema.remove_metadata()) else batch.cast(schema)


def plain_field(field: pa.Field, *, ids: bool = False) -> pa.Field:
    """The same field with a plain type; without metadata, unless the ids are needed that tell fields apart."""
    kind = plain_type(field.type, ids=ids)
    return pa.field(field.name, kind, nullable=field.nullable, metadata=field.metadata if ids else None)


def plain_type(kind: pa.DataType, *, ids: bool = False) -> pa.DataType:
    """The plain type of the same values; `ids` is for `plain_field`."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(child, ids=ids) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_field(kind.key_field, ids=ids), plain_field(kind.item_field, ids=ids))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(plain_field(kind.value_field, ids=ids))
    return kind
