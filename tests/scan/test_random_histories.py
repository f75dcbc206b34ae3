"""Random tables, read in random ways: the files are those of an independent replay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from tests.builder import canonical_path
from tests.builder.strategies import History, histories, predicates
from tests.scan.damage import checkpoint_files
from tests.scan.effort import examples
from tests.scan.expected import built, by_key, contents, forms_of
from tests.scan.reading import STRATEGIES, keys_of, scan, scanner
from tests.scan.sizes import SIZES

strategies = st.sampled_from(STRATEGIES)


@pytest.mark.full
@examples(20)
@given(history=histories())
def test_every_version_has_the_files_of_the_model(history: History) -> None:
    with built(history) as table:
        forms = forms_of(history)
        for version in table.readable_versions():
            expected = contents(table, version, forms)
            for strategy in STRATEGIES:
                found = scan(table, strategy=strategy, version=version)
                assert by_key(found) == expected
            read = scanner(table, version=version).snapshot()
            assert read.version == version
            assert read.metadata.configuration == table.model_action("metaData", version)["configuration"]
            assert read.metadata.schema_string == table.model_action("metaData", version)["schemaString"]
            assert list(read.protocol.reader_features or []) == table.model_action("protocol", version).get(
                "readerFeatures", []
            )


@pytest.mark.full
@examples(25)
@given(history=histories(portable=True))
def test_an_independent_reader_finds_the_same_files(history: History) -> None:
    with built(history) as table:
        for version in table.readable_versions():
            peer = pa.table(DeltaTable(table.root, version=version).get_add_actions())
            expected = zip(
                map(canonical_path, peer["path"].to_pylist()),
                peer["size_bytes"].to_pylist(),
                peer["num_records"].to_pylist(),
                strict=True,
            )
            ours = [(file.path, file.size, file.num_records) for file in scan(table, version=version)]
            assert sorted(ours, key=repr) == sorted(expected, key=repr)


@examples(20)
@given(history=histories(), data=st.data())
def test_a_limit_gives_so_many_files_of_the_answer(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        version = data.draw(st.sampled_from(table.readable_versions()))
        condition = data.draw(st.none() | predicates(table.model_columns(version)))
        config: dict[str, Any] = {
            "version": version,
            "strategy": data.draw(strategies),
            "predicate": None if condition is None else condition.sql,
        }
        whole = keys_of(scan(table, **config))
        for limit in data.draw(st.lists(st.integers(0, len(whole) + 2), min_size=1, max_size=4)):
            batch_size = data.draw(st.integers(1, 3))
            found = keys_of(scan(table, limit=limit, batch_size=batch_size, **config))
            assert len(found) == len(set(found)) == min(limit, len(whole))
            assert set(found) <= set(whole)


@pytest.mark.full
@examples(20)
@given(history=histories(), data=st.data())
def test_settings_do_not_change_the_answer(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        forms = forms_of(history)
        version = data.draw(st.sampled_from(table.readable_versions()))
        expected = contents(table, version, forms)
        condition = data.draw(st.none() | predicates(table.model_columns(version)))
        if condition is not None:
            kept = set(keys_of(scan(table, version=version, predicate=condition.sql)))
            expected = {key: file for key, file in expected.items() if key in kept}
        for _ in range(3):
            reader = scanner(
                table,
                version=version,
                predicate=None if condition is None else condition.sql,
                strategy=data.draw(strategies),
                batch_size=data.draw(st.integers(1, 5)),
                commit_read_parallelism=data.draw(st.integers(1, 4)),
                checkpoint_row_groups_per_batch=data.draw(st.integers(1, 4)),
            )
            with data.draw(st.sampled_from(SIZES))():
                batches = list(reader.scan_batches())
                assert all(0 < batch.num_rows <= reader.config.batch_size for batch in batches)
                assert by_key(reader.scan_files()) == expected


@pytest.mark.parametrize("text", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
@examples(6)
@given(history=histories(), strategy=strategies)
def test_a_checkpoint_may_say_which_arrow_types_it_was_made_of(
    text: pa.DataType, history: History, strategy: str
) -> None:
    """The types of Parquet are what counts; a writer's Arrow schema beside them only says what it had in memory."""
    with built(history) as table:
        for path in checkpoint_files(table):
            if path.suffix == ".parquet":
                rows = pq.read_table(path)
                schema = pa.schema([field.with_type(retyped(field.type, text)) for field in rows.schema])
                columns = [pa.array(rows[name].to_pylist(), schema.field(name).type) for name in schema.names]
                pq.write_table(pa.table(columns, schema=schema), path)
        found = scan(table, strategy=strategy)
        assert by_key(found) == contents(table, table.version, forms_of(history))


def retyped(kind: pa.DataType, text: pa.DataType) -> pa.DataType:
    """The same type with other strings in it."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(retyped(field.type, text)) for field in kind])
    return text if pa.types.is_string(kind) else kind
