"""Partition values: strings in the log, typed columns everywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delta_sidecar._arrow import from_numpy, scalar, to_numpy
from delta_sidecar.log.values import parse_timestamps

if TYPE_CHECKING:
    from numpy.typing import NDArray


_EMPTY, _NULL = scalar("", pa.string()), scalar(None, pa.string())


class PartitionTexts(Struct, frozen=True):
    """Raw values of one partition column, a row a file."""

    # Null for the value null, and for a value that the log does not have.
    texts: pa.StringArray | pa.DictionaryArray
    known: NDArray[np.bool_]  # the rows whose value the log has


class PartitionColumn(Struct, frozen=True):
    """Typed values of one partition column, a row a file."""

    values: pa.Array
    zoneless: pa.BooleanArray | None = None  # timestamps that were written without a zone, in the writer's own


def read_partition_column(text: pa.StringArray, type: pa.DataType) -> PartitionColumn | None:  # noqa: A002
    """Parses the strings of one partition column; an empty string is null.

    Returns:
        None if a text is no value of the type, or values of the type cannot be compared.
    """
    text = pc.if_else(pc.equal(text, _EMPTY), _NULL, text)
    try:
        if pa.types.is_timestamp(type):
            values, zoneless = parse_timestamps(text)
            if type.tz is None:
                return PartitionColumn(values.cast(type))
            return PartitionColumn(values.cast(pa.timestamp("us", type.tz)), zoneless)
        if pa.types.is_binary(type) or pa.types.is_null(type):
            return None
        if pa.types.is_integer(type) and any(pc.any(pc.match_substring(text, pattern=each)).as_py() for each in "xX"):
            # Arrow takes 0x10 for a number.
            return None
        return PartitionColumn(text.cast(type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def read_known_values(texts: PartitionTexts, type: pa.DataType) -> tuple[PartitionTexts, PartitionColumn | None]:  # noqa: A002
    """Parses the strings of one partition column, invalid ones too.

    Returns:
        The texts, with `known` cleared for those that are no value of the type, and the typed values; None for those of
        a type that cannot be compared.
    """
    column = read_partition_column(texts.texts, type)
    if column is not None or pa.types.is_binary(type) or pa.types.is_null(type):
        return texts, column
    encoded = texts.texts.dictionary_encode()
    each = [read_partition_column(encoded.dictionary.slice(at, 1), type) for at in range(len(encoded.dictionary))]
    values = [pa.nulls(1, type) if found is None else found.values for found in each]
    zoneless = [pa.nulls(1, pa.bool_()) if found is None else found.zoneless for found in each]
    is_odd = from_numpy(np.array([found is None for found in each], dtype=np.bool_)).take(encoded.indices)
    with_zones = pa.types.is_timestamp(type) and type.tz is not None
    typed = PartitionColumn(
        pa.concat_arrays([*values, pa.nulls(0, type)]).take(encoded.indices),
        pa.concat_arrays(zoneless).take(encoded.indices) if with_zones else None,
    )
    return PartitionTexts(texts.texts, texts.known & ~to_numpy(is_odd)), typed


def lookup(values: pa.MapArray, name: str) -> PartitionTexts:
    """The value of a name in each row's map of partition values; `known` is false for a map without it."""
    offsets = to_numpy(values.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = values.keys.slice(first, last - first), values.items.slice(first, last - first)
    is_key = pc.equal(keys.dictionary if pa.types.is_dictionary(keys.type) else keys, scalar(name, pa.string()))
    entries = np.flatnonzero(to_numpy(is_key.take(keys.indices) if pa.types.is_dictionary(keys.type) else is_key))
    if len(entries) == len(items) == len(values) and values.null_count == 0 and (np.diff(offsets) == 1).all():
        return PartitionTexts(items, np.ones(len(values), dtype=np.bool_))
    places = np.full(len(values), -1, dtype=np.int64)
    # Written from the last entry to the first, so that of several under one name the first one counts.
    rows = np.searchsorted(offsets - first, entries, side="right") - 1
    places[rows[::-1]] = entries[::-1]
    known = (places >= 0) & to_numpy(values.is_valid())
    return PartitionTexts(items.take(from_numpy(places, known)), known)
