"""Random tables with metadata sidecars: the same files with the same everything as by Delta's own log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.builder.columns import PARTITION_COLUMNS
from tests.builder.strategies import History, histories, predicates, true_conditions
from tests.scan.effort import examples
from tests.scan.expected import built, shallow, shallow_model
from tests.scan.paged import pages
from tests.scan.reading import STRATEGIES, key_of, keys_of, scan, scanner
from tests.scan.sidecar_tables import heard, is_same, manifest_of, spoil_piece, with_sidecar, without_sidecars
from tests.scan.sizes import SIZES

from delta_sidecar.build.publish import Levels

if TYPE_CHECKING:
    from tests.builder import TableBuilder

levels = st.sampled_from([Levels(), Levels(2, 1, 1), Levels(1, 2, 1)])
buckets = st.sampled_from([None, None, *sorted(PARTITION_COLUMNS)])


@dataclass(frozen=True)
class Query:
    """A table with a sidecar, and what is asked of it.

    Attributes:
        sidecar: The sidecar's version.
        config: The version that is read, and with which bucket column.
        is_alike: Whether Delta's own log still tells the statistics that the sidecar was built from.
    """

    sidecar: int
    config: dict[str, Any]
    is_alike: bool


def asked(table: TableBuilder, data: st.DataObject) -> Query:
    """Builds a sidecar of some version, and draws a version to read."""
    readable = table.readable_versions()
    sidecar = data.draw(st.sampled_from(readable), label="sidecar")
    bucket = data.draw(buckets, label="bucket")
    options = {"rows_per_group": data.draw(st.integers(1, 3)), "levels": data.draw(levels)}
    config: dict[str, Any] = {} if bucket is None else {"bucket_column": bucket}
    with_sidecar(table, sidecar, **options, **config)
    version = data.draw(st.sampled_from([at for at in readable if at >= sidecar]), label="version")
    newer = [at for at in table.checkpoints if sidecar < at <= version]
    return Query(sidecar, config | {"version": version}, not newer)


def by_sidecar(table: TableBuilder, query: Query) -> bool:
    """Whether the sidecar can be the base: commits may have been cleaned up since."""
    tier = heard(table, **query.config).told[0]
    event(f"tier {tier}")
    return tier == 1


@pytest.mark.full
@examples(20)
@given(history=histories(), data=st.data())
def test_the_same_files(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        query = asked(table, data)
        by_sidecar(table, query)
        for way in ({"strategy": "reverse"}, {"strategy": "forward"}, {"order": "recent"}):
            found = scan(table, **query.config, **way)
            assert shallow(found) == shallow_model(table, query.config["version"])
            if query.is_alike:
                is_same(found, without_sidecars(table, **query.config, **way))


@pytest.mark.full
@examples(20)
@given(history=histories(), data=st.data())
def test_the_same_answers_to_predicates(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        query = asked(table, data)
        version = query.config["version"]
        columns, live = table.model_columns(version), table.model_files(version)
        rows = [row for action in live.values() for row in action.rows]
        for _ in range(3):
            drawn = st.sampled_from(rows).flatmap(lambda row: true_conditions(columns, row)) if rows else st.nothing()
            condition = data.draw(predicates(columns, rows) | drawn)
            way = data.draw(st.sampled_from([{"strategy": "reverse"}, {"strategy": "forward"}, {"order": "recent"}]))
            with data.draw(st.sampled_from(SIZES))():
                found = scan(table, **query.config, **way, predicate=condition.sql)
            if query.is_alike:
                is_same(found, without_sidecars(table, **query.config, **way, predicate=condition.sql))
            kept = set(keys_of(found))
            assert len(kept) == len(found)
            for key in live.keys() - kept:
                assert not any(condition.matches(row) for row in live[key].rows), (key, condition)


@examples(15)
@given(history=histories(), data=st.data())
def test_the_same_files_after_a_break(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        query = asked(table, data)
        expected = sorted(table.model_files(query.config["version"]), key=repr)
        manifest = manifest_of(table, query.sidecar)
        if not manifest.row_groups:
            return
        group = data.draw(st.sampled_from(list(manifest.row_groups)))
        spoil_piece(table, query.sidecar, group, data.draw(st.sampled_from(["index", "statistics"])))
        for way in ({"strategy": "reverse"}, {"strategy": "forward"}, {"order": "recent"}):
            assert keys_of(scan(table, **query.config, **way)) == expected, way
        limit = data.draw(st.integers(1, 4))
        assert keys_of(file for page in pages(table, limit, **query.config) for file in page) == expected


@examples(10)
@given(history=histories(), data=st.data())
def test_pages_of_a_sidecar(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        query = asked(table, data)
        expected = scan(table, **query.config, order="recent")
        limit = data.draw(st.integers(1, 4))
        assert [file for page in pages(table, limit, **query.config) for file in page] == expected
        columns = table.model_columns(query.config["version"])
        config = query.config | {"predicate": data.draw(predicates(columns)).sql}
        some = scan(table, **config, order="recent")
        assert [file for page in pages(table, limit, **config) for file in page] == some
        assert keys_of(some) == keys_of(scan(table, **config, strategy="forward"))
        strategy = data.draw(st.sampled_from(STRATEGIES))
        paged = [file for page in pages(table, limit, **query.config, strategy=strategy, order="any") for file in page]
        assert keys_of(paged) == keys_of(expected)


@examples(15)
@given(history=histories(), data=st.data())
def test_estimates_hold(history: History, data: st.DataObject) -> None:
    with built(history) as table:
        query = asked(table, data)
        columns = table.model_columns(query.config["version"])
        for condition in (None, data.draw(predicates(columns))):
            config = query.config | {"predicate": None if condition is None else condition.sql}
            estimate = scanner(table, **config).estimate()
            found = scan(table, **config)
            live = table.model_files(query.config["version"])
            rows = sum(len(live[key_of(file)].rows) for file in found)
            counts = [(estimate.files, len(found)), (estimate.bytes, sum(f.size for f in found)), (estimate.rows, rows)]
            for bounds, count in counts:
                assert bounds.lower <= count, estimate
                assert bounds.upper is None or count <= bounds.upper, estimate
