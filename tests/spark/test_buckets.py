"""Time buckets: Python's are Spark's, whatever the session's time zone, and Delta generates them."""

from __future__ import annotations

import datetime as dt
import json
import random
from itertools import product
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from delta_sidecar.errors import OptionError
from delta_sidecar.spark.access import hadoop_url
from delta_sidecar.spark.ingest.buckets import TimeBucket
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Lake

GRANULARITIES = ("month", "day", "hour", "minute", "second")
KINDS = ("timestamp", "timestamp_ntz")
BUCKETS = {
    **{granularity: TimeBucket(granularity) for granularity in GRANULARITIES},
    "dashes": TimeBucket("hour", format="yyyy-MM-dd-HH"),
    "mixed": TimeBucket("second", format="yyyy.MM_dd'T'HH:mm ss"),
}

# Offsets of half an hour, of three quarters and of seconds, gaps at midnight, and a day that does not exist.
ZONES = ("UTC", "Asia/Kolkata", "America/New_York", "Pacific/Apia")
CHANGING = (*ZONES, "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe", "Europe/Berlin", "Asia/Manila")

SECOND = 1_000_000
HOUR = 3600 * SECOND
FIRST = -62_135_596_800 * SECOND
END = 253_402_300_800 * SECOND
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LONGEST = np.iinfo(np.int64)


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


MOMENTS = (
    *(None, FIRST - 1, FIRST, -1, 0, END),
    micros(dt.datetime(2011, 12, 30, 12, tzinfo=dt.UTC)),
    micros(dt.datetime(2026, 3, 8, 2, 30, tzinfo=dt.UTC)),
)


def zone_changes(zone: str) -> Iterator[int]:
    """The seconds since 1970 at which a zone's offset changes, up to 2040."""
    info = ZoneInfo(zone)

    def offset(second: int) -> dt.timedelta | None:
        return (EPOCH + dt.timedelta(seconds=second)).astimezone(info).utcoffset()

    step = 10 * 86400
    for start in range(micros(dt.datetime(1840, 1, 1, tzinfo=dt.UTC)) // SECOND, 2_208_988_800, step):
        low, high = start, start + step
        if offset(low) == offset(high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
        yield high


def values() -> list[int | None]:
    """Micro-seconds since 1970 of all kinds, a few thousand."""
    chance = random.Random(6)  # noqa: S311 - not a secret
    changes = [second * SECOND for zone in CHANGING for second in zone_changes(zone)]
    years = [micros(dt.datetime(year, 1, 1, tzinfo=dt.UTC)) for year in (1, 2, 4, 100, 1000, 1582, 1600, 1900, 1969)]
    years += [micros(dt.datetime(year, 1, 1, tzinfo=dt.UTC)) for year in (1970, 1972, 2000, 2017, 2038, 2100, 9999)]
    days = [
        micros(dt.datetime(*day, tzinfo=dt.UTC))
        for day in ((1582, 10, 15), (1900, 3, 1), (2000, 2, 29), (2024, 2, 29), (2011, 12, 30), (2016, 12, 31))
    ]
    edges = [*filter(None, MOMENTS), *changes, *years, *days, FIRST, END, 0, LONGEST.min, LONGEST.max]
    near = [edge + move for edge in edges for move in (-HOUR, -SECOND, -1, 0, 1, SECOND, HOUR)]
    random_ones = [chance.randrange(LONGEST.min, LONGEST.max) for _ in range(300)]
    random_ones += [chance.randrange(FIRST, END) for _ in range(1000)]
    random_ones += [chance.randrange(-30 * 365 * 24 * HOUR, 60 * 365 * 24 * HOUR) for _ in range(1000)]
    hours = [chance.randrange(FIRST // HOUR, END // HOUR) * HOUR + chance.choice((-1, 0, 1)) for _ in range(1000)]
    inside = {value for value in (*near, *random_ones, *hours) if LONGEST.min <= value <= LONGEST.max}
    return [None, *sorted(inside)]


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file of such values, as both kinds of timestamp; no time zone has a say in how it is read."""
    whole = pa.array(values(), pa.int64())
    table = pa.table(
        {
            "micros": whole,
            "timestamp": whole.view(pa.timestamp("us", "UTC")),
            "timestamp_ntz": whole.view(pa.timestamp("us")),
        }
    )
    path = tmp_path_factory.mktemp("moments") / "moments.parquet"
    pq.write_table(table, path)
    return path


def zoned(spark: SparkSession, zone: str, *, ansi: bool = True, compiled: bool = True) -> SparkSession:
    """A session of its own on the same JVM, in a time zone."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    session.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY" if compiled else "NO_CODEGEN")
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    return session


@pytest.mark.full
@pytest.mark.parametrize(
    ("zone", "options"),
    [*product(ZONES, [{}]), ("Asia/Kolkata", {"ansi": False}), ("Asia/Kolkata", {"compiled": False})],
    ids=str,
)
def test_spark_and_python_agree(spark: SparkSession, moments: Path, zone: str, options: dict[str, bool]) -> None:
    session = zoned(spark, zone, **options)
    columns = [
        f"{bucket.expression(kind).replace('`event_ts`', kind)} as {name}_{kind}"
        for name, bucket in BUCKETS.items()
        for kind in KINDS
    ]
    found = session.read.parquet(f"file://{moments}").selectExpr("micros", *columns).toArrow()
    numbers = found["micros"].to_pylist()
    assert len(numbers) > 5000
    for name, bucket in BUCKETS.items():
        expected = [bucket.of_micros(number) for number in numbers]
        for kind in KINDS:
            assert found[f"{name}_{kind}"].to_pylist() == expected, (name, kind)


def test_python_agrees_with_numpy() -> None:
    inside = np.array([value for value in values() if value is not None and FIRST <= value < END], "datetime64[us]")
    lengths = {"month": 7, "day": 10, "hour": 13, "minute": 16, "second": 19}
    for granularity, length in lengths.items():
        expected = [
            text[:length].translate(str.maketrans("", "", "-T:")) for text in np.datetime_as_string(inside).tolist()
        ]
        assert [TimeBucket(granularity).of_micros(int(value)) for value in inside.astype("int64")] == expected


@given(st.datetimes(timezones=st.timezones()), st.sampled_from(GRANULARITIES))
def test_a_moment_is_in_the_bucket_of_its_utc_time(moment: dt.datetime, granularity: str) -> None:
    bucket = TimeBucket(granularity)  # type: ignore[arg-type]
    lengths = {"month": 6, "day": 8, "hour": 10, "minute": 12, "second": 14}
    try:
        text = f"{moment.astimezone(dt.UTC):%Y%m%d%H%M%S}".rjust(14, "0")[: lengths[granularity]]
    except OverflowError:
        assert bucket.of(moment) is None
    else:
        assert bucket.of(moment) == text


@given(st.lists(st.integers(FIRST, END - 1), min_size=2), st.sampled_from(sorted(BUCKETS)))
def test_texts_sort_as_times(numbers: list[int], name: str) -> None:
    texts = [BUCKETS[name].of_micros(number) for number in sorted(numbers)]
    assert texts == sorted(texts, key=str)


def test_both_moments_of_a_repeated_hour_have_their_own_bucket() -> None:
    zone = ZoneInfo("America/New_York")
    repeated = dt.datetime(2026, 11, 1, 1, 30, tzinfo=zone)
    assert TimeBucket().of(repeated) == "2026110105"
    assert TimeBucket().of(repeated.replace(fold=1)) == "2026110106"


def test_nothing_is_in_no_bucket() -> None:
    assert TimeBucket().of(None) is None
    assert TimeBucket().of_micros(None) is None
    assert TimeBucket().of_micros(FIRST - 1) is None
    assert TimeBucket().of_micros(FIRST) == "0001010100"
    assert TimeBucket().of_micros(END - 1) == "9999123123"
    assert TimeBucket().of_micros(END) is None


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(OptionError, match="has no time zone"):
        TimeBucket().of(dt.datetime(2026, 2, 10))  # noqa: DTZ001


@pytest.fixture(scope="module")
def bucketed(spark: SparkSession, local_lake: Lake) -> str:
    """A table with both kinds of timestamp, made by a session in UTC, with buckets as generated columns."""
    url = local_lake.new_url("buckets")
    columns = []
    for name, kind in product(GENERATED, KINDS):
        bucket = BUCKETS[name]
        quoted = TimeBucket(bucket.granularity, f"{name}_{kind}", f"the`{kind}", bucket.format)
        columns.append(f"{quoted.column} string generated always as ({quoted.expression(kind)})")
    zoned(spark, "UTC").sql(
        f"create table delta.`{hadoop_url(url)}` (n bigint, `the``timestamp` timestamp, "
        f"`the``timestamp_ntz` timestamp_ntz, {', '.join(columns)}) "
        f"using delta partitioned by ({', '.join(PARTITIONS)})"
    )
    return url


GENERATED = ("month", "hour", "mixed")
PARTITIONS = ("hour_timestamp", "hour_timestamp_ntz")


@pytest.mark.full
def test_delta_generates_the_bucket_in_every_zone(spark: SparkSession, moments: Path, bucketed: str) -> None:
    url = hadoop_url(bucketed)
    for version, zone in enumerate(("Asia/Kolkata", "Pacific/Apia"), start=1):
        few(zoned(spark, zone), moments).write.format("delta").mode("append").save(url)
        commit = bytes(open_store(bucketed).get(f"_delta_log/{version:020}.json").data).decode()
        adds = [json.loads(line)["add"] for line in commit.splitlines() if line.startswith('{"add"')]
        found = {tuple(add["partitionValues"][name] for name in PARTITIONS) for add in adds}
        assert found == {(text := BUCKETS["hour"].of_micros(moment), text) for moment in MOMENTS}
    names = [f"{name}_{kind}" for name, kind in product(GENERATED, KINDS)]
    rows = zoned(spark, "UTC").read.format("delta").load(url).select("n", *names).collect()
    assert len(rows) == 2 * len(MOMENTS)
    for row, name, kind in product(rows, GENERATED, KINDS):
        assert row[f"{name}_{kind}"] == BUCKETS[name].of_micros(row["n"])


def test_delta_refuses_another_bucket(spark: SparkSession, moments: Path, bucketed: str) -> None:
    """A writer that fills the column by the clock of its own zone is told so."""
    one = few(zoned(spark, "Asia/Kolkata"), moments).where("n = 0")
    local = one.selectExpr("*", "date_format(`the``timestamp`, 'yyyyMMddHH') as hour_timestamp")
    with pytest.raises(Py4JJavaError, match="Generated Column"):
        local.write.format("delta").mode("append").save(hadoop_url(bucketed))


def test_deltalake_is_refused_rather_than_wrong(bucketed: str) -> None:
    """Its SQL has other functions: what is `cast(... as bigint)` in seconds here is in micro-seconds there."""
    moment = pa.array([0], pa.timestamp("us", "UTC"))
    rows = {"n": pa.array([0]), "the`timestamp": moment, "the`timestamp_ntz": moment.cast(pa.timestamp("us"))}
    before = DeltaTable(bucketed).version()
    with pytest.raises(DeltaError):
        write_deltalake(bucketed, pa.table(rows), mode="append")
    assert DeltaTable(bucketed).version() == before


def few(spark: SparkSession, moments: Path) -> DataFrame:
    wanted = " or ".join("micros is null" if value is None else f"micros = {value}L" for value in MOMENTS)
    names = {"micros": "n", **{kind: f"the`{kind}" for kind in KINDS}}
    return spark.read.parquet(f"file://{moments}").where(wanted).withColumnsRenamed(names)


def test_the_definition_is_kept_in_properties() -> None:
    bucket = TimeBucket("day", "_day", "at", "yyyy-MM-dd")
    assert bucket.properties() == {
        "deltaSidecar.bucket.granularity": "day",
        "deltaSidecar.bucket.column": "_day",
        "deltaSidecar.bucket.timestampColumn": "at",
        "deltaSidecar.bucket.format": "yyyy-MM-dd",
    }
    assert TimeBucket.from_properties({**bucket.properties(), "delta.appendOnly": "true"}) == bucket


def test_a_bucket_column_alone_is_no_definition() -> None:
    assert TimeBucket.from_properties({}) is None
    assert TimeBucket.from_properties({"deltaSidecar.bucket.column": "_event_hour"}) is None


@pytest.mark.parametrize("name", ["column", "granularity", "timestampColumn", "format"])
def test_half_a_definition_is_refused(name: str) -> None:
    half = {key: value for key, value in TimeBucket().properties().items() if not key.endswith(f".{name}")}
    with pytest.raises(OptionError, match=f"deltaSidecar.bucket.{name} is missing"):
        TimeBucket.from_properties(half)


def test_a_definition_that_is_not_valid_is_refused() -> None:
    with pytest.raises(OptionError, match="granularity"):
        TimeBucket.from_properties({**TimeBucket().properties(), "deltaSidecar.bucket.granularity": "week"})


def test_differences_are_told_in_words() -> None:
    assert TimeBucket().difference(TimeBucket()) is None
    assert TimeBucket().difference(TimeBucket("day", timestamp_column="at")) == (
        "granularity 'day' instead of 'hour', timestamp column 'at' instead of 'event_ts', "
        "format 'yyyyMMdd' instead of 'yyyyMMddHH'"
    )


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_usual_formats(granularity: str) -> None:
    bucket = TimeBucket(granularity)  # type: ignore[arg-type]
    formats = {"month": "yyyyMM", "day": "yyyyMMdd", "hour": "yyyyMMddHH", "minute": "yyyyMMddHHmm"}
    assert bucket.format == formats.get(granularity, "yyyyMMddHHmmss")


@pytest.mark.parametrize(
    ("granularity", "text"),
    [
        ("hour", "yyyyMMdd"),
        ("hour", "yyyyMMddHHmm"),
        ("hour", "HHyyyyMMdd"),
        ("hour", "ddMMyyyyHH"),
        ("hour", "yyyyMMddhh"),
        ("hour", "YYYYMMddHH"),
        ("hour", "yyyy/MM/dd/HH"),
        ("hour", "yyyy--MM-dd-HH"),
        ("hour", "yyyyMMddHH-"),
        ("hour", "yyyyMMddTHH"),
        ("hour", "yyyyMMdd'x'HH"),
        ("hour", "yyyyMMddHH\n"),
        ("hour", ""),
        ("day", 5),
    ],
)
def test_formats_that_are_refused(granularity: str, text: str) -> None:
    with pytest.raises(OptionError, match="format of a time bucket"):
        TimeBucket(granularity, format=text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"granularity": "week"}, "granularity"),
        ({"granularity": None}, "granularity"),
        ({"column": ""}, "column"),
        ({"timestamp_column": None}, "timestamp_column"),
        ({"column": "A", "timestamp_column": "a"}, "both"),
    ],
)
def test_values_that_are_refused(arguments: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        TimeBucket(**arguments)  # type: ignore[arg-type]


def test_columns_of_other_types_are_refused() -> None:
    with pytest.raises(OptionError, match="'event_ts' is date"):
        TimeBucket().expression("date")  # type: ignore[arg-type]
