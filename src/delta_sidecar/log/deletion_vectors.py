"""Deletion vectors: which rows of a data file are no longer in the table. Here only their descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import scalar

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where the deletion vector of a file is stored.

    Attributes:
        storage_type: `u` (a file named by a UUID, relative to the table), `p` (an absolute path) or `i` (inline).
        path_or_inline_dv: The encoded UUID with its prefix, the path, or the vector itself, by storage type.
        offset: Where in its file the vector starts; None for an inline one.
        size_in_bytes: Size of the serialized vector.
        cardinality: How many rows it deletes.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """What tells this vector from another of the same data file."""
        place = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{place}"

    @classmethod
    def from_struct(cls, fields: Mapping[str, object] | None) -> DeletionVector | None:
        """Reads a descriptor as the log has it; None where a file has no deletion vector."""
        if fields is None or fields.get("storageType") is None:
            return None
        offset = fields.get("offset")
        return cls(
            storage_type=str(fields["storageType"]),
            path_or_inline_dv=str(fields["pathOrInlineDv"]),
            offset=offset if isinstance(offset, int) else None,
            size_in_bytes=int(str(fields.get("sizeInBytes") or 0)),
            cardinality=int(str(fields.get("cardinality") or 0)),
        )


def unique_ids(descriptors: pa.StructArray) -> pa.StringArray | None:
    """The unique id of each row's deletion vector, null where it has none; None where no row has one."""
    if descriptors.null_count == len(descriptors):
        return None
    # flatten() lays the struct's own nulls over its fields.
    fields = dict(zip((field.name for field in descriptors.type), descriptors.flatten(), strict=True))
    offset = fields.get("offset", pa.nulls(len(descriptors), pa.int32()))
    place = pc.binary_join_element_wise(scalar("@", pa.string()), offset.cast(pa.string()), scalar("", pa.string()))
    joined = pc.binary_join_element_wise(
        fields["storageType"],
        fields["pathOrInlineDv"],
        pc.fill_null(place, scalar("", pa.string())),
        scalar("", pa.string()),
    )
    return None if joined.null_count == len(joined) else joined
