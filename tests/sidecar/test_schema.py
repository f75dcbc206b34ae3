from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from tests.sidecar.made import INSTANT, VALUES, schemas

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.sidecar.schema import (
    SidecarSchema,
    arrow_type,
    bounded_type,
    default_time_column,
    stats_columns,
    type_name,
)

TELEMETRY = pa.schema(
    [
        pa.field("device", pa.string()),
        pa.field("event_time", INSTANT),
        pa.field("place", pa.struct([pa.field("lat.deg", pa.float64()), pa.field("tags", pa.list_(pa.string()))])),
        pa.field("payload", pa.binary()),
        pa.field("clock", pa.timestamp("us")),
        pa.field("_event_hour", pa.string()),
    ]
)
COLUMNS = {
    ("device",): pa.string(),
    ("event_time",): INSTANT,
    ("place", "lat.deg"): pa.float64(),
    ("place", "tags"): None,
    ("payload",): None,
    ("clock",): pa.timestamp("us"),
}
SCHEMA = SidecarSchema("_event_hour", ("region",), ("event_time",), COLUMNS)


def test_index_columns() -> None:
    assert SCHEMA.index == pa.schema(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("modification_time", pa.int64()),
            ("_event_hour", pa.string()),
            ("num_records", pa.int64()),
            ("tight_bounds", pa.bool_()),
            ("dv.storageType", pa.string()),
            ("dv.pathOrInlineDv", pa.string()),
            ("dv.offset", pa.int32()),
            ("dv.sizeInBytes", pa.int32()),
            ("dv.cardinality", pa.int64()),
            ("untold", pa.string()),
            ("partition.region", pa.string()),
            ("min.event_time", INSTANT),
            ("max.event_time", INSTANT),
            ("null_count.event_time", pa.int64()),
        ]
    )


def test_statistics_columns() -> None:
    assert SCHEMA.statistics_schema == pa.schema(
        [
            ("tags", pa.string()),
            ("base_row_id", pa.int64()),
            ("default_row_commit_version", pa.int64()),
            ("clustering_provider", pa.string()),
            ("stats_json", pa.string()),
            ("min.device", pa.string()),
            ("max.device", pa.string()),
            ("null_count.device", pa.int64()),
            ("min.place.`lat.deg`", pa.float64()),
            ("max.place.`lat.deg`", pa.float64()),
            ("null_count.place.`lat.deg`", pa.int64()),
            ("null_count.place.tags", pa.int64()),
            ("null_count.payload", pa.int64()),
            ("min.clock", pa.timestamp("us")),
            ("max.clock", pa.timestamp("us")),
            ("null_count.clock", pa.int64()),
        ]
    )


def test_without_bucket_and_time() -> None:
    plain = SidecarSchema(None)
    assert plain.bucket_column is None
    assert plain.index.names[2:4] == ["modification_time", "num_records"]
    assert plain.index.names[-1] == "untold"
    assert plain.statistics_schema.names[-1] == "stats_json"


@pytest.mark.parametrize("bucket", ["path", "Size", "partition.region", "min.event_time", "MAX.DEVICE", "tags"])
def test_a_bucket_gives_way_to_a_column_of_the_same_name(bucket: str) -> None:
    schema = SidecarSchema(bucket, ("region",), ("event_time",), COLUMNS)
    assert schema.bucket_column == (f"partition.`{bucket}`" if "." in bucket else f"partition.{bucket}")
    assert schema.index.names[3] == schema.bucket_column


@given(schemas())
def test_all_names_differ(schema: SidecarSchema) -> None:
    names = [*schema.index.names, *schema.statistics_schema.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("time", [("device", "x"), ("payload",)])
def test_a_time_column_has_bounds(time: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="has no bounds"):
        SidecarSchema(None, (), time, COLUMNS)


def test_the_hash_of_a_known_schema() -> None:
    assert SidecarSchema("_event_hour").schema_hash == xxh3_128(
        b"delta-sidecar 1\n"
        b"_event_hour\tstring\nbase_row_id\tlong\nclustering_provider\tstring\ndefault_row_commit_version\tlong\n"
        b"dv.cardinality\tlong\ndv.offset\tinteger\ndv.pathOrInlineDv\tstring\ndv.sizeInBytes\tinteger\n"
        b"dv.storageType\tstring\nmodification_time\tlong\nnum_records\tlong\npath\tstring\nsize\tlong\n"
        b"stats_json\tstring\ntags\tstring\ntight_bounds\tboolean\nuntold\tstring\n"
    )
    assert SCHEMA.schema_hash == "f3b0aa20f53eb358bf24c56ee8f690e7"


def test_the_hash_is_that_of_another_process() -> None:
    code = "from tests.sidecar.test_schema import SCHEMA; print(SCHEMA.schema_hash)"
    path = "import sys; sys.path[:0] = ['src', '.']; "
    run = subprocess.run([sys.executable, "-c", path + code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == SCHEMA.schema_hash


def test_the_hash_does_not_depend_on_the_order_of_columns() -> None:
    turned = SidecarSchema("_event_hour", ("region",), ("event_time",), dict(reversed(COLUMNS.items())))
    assert turned.schema_hash == SCHEMA.schema_hash


@pytest.mark.parametrize(
    "other",
    [
        SidecarSchema("_event_hour", ("region",), ("clock",), COLUMNS | {("clock",): INSTANT}),
        SidecarSchema("_event_hour", ("region",), ("event_time",), COLUMNS | {("device",): pa.int64()}),
        SidecarSchema("_event_hour", (), ("event_time",), COLUMNS),
        SidecarSchema("_event_day", ("region",), ("event_time",), COLUMNS),
        SidecarSchema(None, ("region",), ("event_time",), COLUMNS),
    ],
)
def test_another_schema_has_another_hash(other: SidecarSchema) -> None:
    assert other.schema_hash != SCHEMA.schema_hash


@pytest.mark.parametrize("kind", [*VALUES, pa.binary()])
def test_types_have_names(kind: pa.DataType) -> None:
    assert arrow_type(type_name(kind)) == kind


@pytest.mark.parametrize(
    "name", ["", "void", "decimal", "decimal(0,0)", "decimal(39,1)", "decimal(5,6)", "decimal(5,-1)"]
)
def test_what_names_no_type(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a type"):
        arrow_type(name)


@pytest.mark.parametrize("kind", [pa.null(), pa.list_(pa.int8()), pa.decimal128(5, -1), pa.timestamp("ns")])
def test_types_that_no_column_has(kind: pa.DataType) -> None:
    assert bounded_type(kind) is None
    with pytest.raises(ValueError, match="not a type of the format"):
        type_name(kind)


def test_columns_with_statistics() -> None:
    assert list(stats_columns(TELEMETRY, {}, ["_event_hour"]).items()) == list(COLUMNS.items())


@pytest.mark.parametrize(
    ("count", "expected"), [("-1", 6), ("0", 0), ("1", 1), ("3", 3), ("4", 4), ("99", 6), ("many", 6)]
)
def test_the_first_leaves_have_statistics(count: str, expected: int) -> None:
    found = stats_columns(TELEMETRY, {"delta.dataSkippingNumIndexedCols": count}, ["_event_hour"])
    assert list(found) == list(COLUMNS)[:expected]


def test_thirty_two_leaves_have_statistics() -> None:
    wide = pa.schema([pa.field(f"c{number}", pa.int64()) for number in range(40)])
    assert list(stats_columns(wide, {}, ["c3"])) == [(f"c{number}",) for number in range(33) if number != 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("device", [("device",)]),
        ("clock, DEVICE", [("device",), ("clock",)]),
        ("place", [("place", "lat.deg"), ("place", "tags")]),
        ("place.`lat.deg`", [("place", "lat.deg")]),
        ("`place` . `tags`,`clock`", [("place", "tags"), ("clock",)]),
        ("place.lat.deg", []),
        ("_event_hour", []),
        ("nothing", []),
        ("", []),
        (" , ,", []),
    ],
)
def test_named_columns_have_statistics(text: str, expected: list[tuple[str, ...]]) -> None:
    properties = {"delta.dataSkippingStatsColumns": text, "delta.dataSkippingNumIndexedCols": "1"}
    assert list(stats_columns(TELEMETRY, properties, ["_event_hour"])) == expected


def test_columns_are_named_as_users_see_them() -> None:
    physical = pa.schema(
        [
            pa.field("col-1", pa.int64()),
            pa.field("col-2", pa.struct([pa.field("col-3", pa.date32()), pa.field("col-4", pa.int8())])),
        ]
    )
    logical = pa.schema(
        [pa.field("a,b`", pa.int64()), pa.field("s", pa.struct([pa.field("x", pa.date32()), pa.field("y", pa.int8())]))]
    )
    properties = {"delta.dataSkippingStatsColumns": "s.y,`a,b```"}
    assert stats_columns(physical, properties, [], logical=logical) == {
        ("col-1",): pa.int64(),
        ("col-2", "col-4"): pa.int8(),
    }


def test_a_variant_is_one_column() -> None:
    variant = pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
    schema = pa.schema([pa.field("v", variant), pa.field("n", pa.int64()), pa.field("void", pa.null())])
    assert stats_columns(schema, {}, []) == {("v",): None, ("n",): pa.int64(), ("void",): None}


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (COLUMNS, ("event_time",)),
        ({("clock",): pa.timestamp("us"), ("device",): pa.string()}, ("clock",)),
        ({("device",): pa.string()}, None),
    ],
)
def test_the_time_column(stats: dict[tuple[str, ...], pa.DataType | None], expected: tuple[str, ...] | None) -> None:
    assert default_time_column(TELEMETRY, stats) == expected
