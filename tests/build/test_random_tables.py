"""Random tables, and what their sidecars hold: every live file, to the letter, and in the order that replay expects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build.reading_back import comparable, read_back, scanned, scanned_files
from tests.builder.strategies import History, histories
from tests.scan.effort import examples
from tests.scan.expected import built

from delta_sidecar.build import build_sidecar
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.sidecar.order import key_scalars


@pytest.mark.full
@examples(25)
@given(history=histories(), data=st.data())
def test_every_version_can_be_built(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        root = table.root
        version = data.draw(st.sampled_from(table.readable_versions()))
        partitions = table.model_action("metaData", version)["partitionColumns"]
        bucket = data.draw(st.sampled_from(["_event_hour", *partitions]))
        options: dict[str, Any] = {"bucket_column": bucket, "rows_per_group": data.draw(st.integers(1, 5))}
        build_sidecar(root, version=version, threads=1, **options)
        found = read_back(root, version)
        assert found.files() == scanned_files(root, version)
        keys = found.keys()
        assert keys == sorted(keys)

        # A scan of the log itself gives files the same keys, in whatever batches they come.
        files = scanned(root, version).combine_chunks().to_batches()
        if not files:
            return
        assert files[0].schema == FILE_SCHEMA
        of_files = found.keys_of(files[0])
        assert sorted(of_files) == keys
        one_by_one = [key for row in range(files[0].num_rows) for key in found.keys_of(files[0].slice(row, 1))]
        assert one_by_one == of_files

        # And each of them lies within the row group that holds it, and within no other.
        rows = comparable(found.order.of_rows(found.rows, found.schema))
        start = 0
        for group in found.groups:
            ends = [key_scalars(key, found.manifest.sort) for key in (group.first_key, group.last_key)]
            first, last = comparable(
                [pa.array([low.as_py(), high.as_py()], low.type) for low, high in zip(*ends, strict=True)]
            )
            inside = [number for number, key in enumerate(rows) if first <= key <= last]
            assert inside == list(range(start, start + group.num_rows))
            start += group.num_rows
