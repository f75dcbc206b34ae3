"""Where data files and deletion vectors are: below the table, elsewhere where that is allowed, and nowhere else."""

from __future__ import annotations

import traceback
import uuid
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builder import TableBuilder, add, metadata, protocol
from tests.builder.actions import dump
from tests.rows.tables import (
    WITH_VECTORS,
    absolute_vector,
    inline_vector,
    parquet,
    put,
    stored_vector,
    values,
)

from delta_sidecar import DeletionVectorError, DeltaSidecarError, DeltaTable, UnreadableFileError
from delta_sidecar.rows.locations import Places, TableAccess
from delta_sidecar.store import RequestLog, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.azurite import Azurite

ROWS = pa.table({"id": [0, 1, 2, 3]})
EXTERNAL = {"allow_external_paths": True}
SECRET = "QUJDREVGR0hJSktMTU5PUA"  # noqa: S105 - what must not be shown


def table_with(root: Path, *actions: dict[str, Any]) -> TableBuilder:
    built = TableBuilder(root, schema={"id": "long"}, protocol=WITH_VECTORS)
    built.commit(list(actions))
    return built


def ids(table: TableBuilder | Path, **query: Any) -> list[int]:  # noqa: ANN401
    return [row["id"] for row in values(table, **query)]


def file_at(path: Path, content: bytes | None = None) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parquet(ROWS) if content is None else content)
    return path.stat().st_size


# --- below the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_an_absolute_path_below_the_table_is_the_table_s_own(
    tmp_path: Path, written: str, subtests: pytest.Subtests
) -> None:
    names = ["a.parquet", "p=x y/ä+&.parquet", "a%20b.parquet", "what?.parquet", "#1.parquet"]
    for number, (name, folder) in enumerate(product(names, ["table", "tab le%20"])):
        with subtests.test(f"{folder}/{name}"):
            root = tmp_path / str(number) / folder
            size = file_at(root / name)
            table_with(root, add(written.format(quote(str(root / name))), size=size))
            assert ids(root) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["p=x y/ä+&.parquet", "a%20b.parquet", "%25.parquet", "a:b.parquet"])
def test_relative_paths_are_decoded_once(tmp_path: Path, name: str) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"})
    built.commit([put(built, name, ROWS)])
    assert ids(built) == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{}, EXTERNAL])
@pytest.mark.parametrize("path", ["../secret.parquet", "a/../../secret.parquet", "a/%2E%2E/../secret.parquet"])
def test_a_relative_path_does_not_lead_out_of_the_table(tmp_path: Path, path: str, options: dict[str, bool]) -> None:
    size = file_at(tmp_path / "secret.parquet")
    table_with(tmp_path / "table", add(path, size=size))
    with pytest.raises(UnreadableFileError, match="not a path below the table's root"):
        ids(tmp_path / "table", options=options)


@pytest.mark.parametrize("options", [{}, EXTERNAL])
def test_an_absolute_path_does_not_lead_back(tmp_path: Path, options: dict[str, bool]) -> None:
    size = file_at(tmp_path / "secret.parquet")
    table_with(tmp_path / "table", add(f"file://{tmp_path}/table/../secret.parquet", size=size))
    with pytest.raises(UnreadableFileError, match=r"leads back \(\.\.\)"):
        ids(tmp_path / "table", options=options)


# --- elsewhere --------------------------------------------------------------------------------------------------


def test_files_of_another_table_are_read_where_that_is_allowed(tmp_path: Path) -> None:
    """As a shallow clone has them; one of them lies in a folder whose name begins with the table's own."""
    paths = [tmp_path / name for name in ("table-2/a.parquet", "source/p=1/b c.parquet", "source/p=2/d%25.parquet")]
    clone = table_with(
        tmp_path / "table",
        *(add(f"file://{quote(str(path))}", size=file_at(path)) for path in paths),
    )
    own = put(clone, "own.parquet", ROWS)
    clone.commit([own])
    with pytest.raises(UnreadableFileError, match=r"is outside of the table .* allow_external_paths") as refused:
        ids(clone)
    assert any(refused.value.path.endswith(path.name) for path in paths)
    assert sorted(ids(clone, options=EXTERNAL)) == sorted([0, 1, 2, 3] * 4)


def test_requests_for_other_places_count_and_stop_too(tmp_path: Path) -> None:
    path = tmp_path / "source/a.parquet"
    clone = table_with(tmp_path / "table", add(f"file://{path}", size=file_at(path)))
    stream = DeltaTable(clone.root, options=EXTERNAL).scan()
    assert sum(batch.num_rows for batch in stream) == 4
    assert stream.metrics.requests.gets == 1
    assert stream.metrics.requests.bytes == path.stat().st_size


def test_there_is_one_store_for_all_folders_of_a_place(tmp_path: Path) -> None:
    log = RequestLog()
    places = Places(TableAccess(open_store(tmp_path / "table"), allow_external_paths=True), log)
    found = [places.find(f"file://{tmp_path}/other/day={day}/a.parquet") for day in range(50)]
    assert len({id(store) for store, _ in found}) == 1
    assert {path for _, path in found} == {f"{tmp_path}/other/day={day}/a.parquet".lstrip("/") for day in range(50)}


@pytest.mark.parametrize(
    ("table", "path", "expected"),
    [
        ("memory://one/t", "memory://one/t/a b%20.parquet", "a b%20.parquet"),
        ("memory://one", "memory://one/t/a.parquet", "t/a.parquet"),
        ("memory://one/a%20b", "memory://one/a b/c.parquet", "c.parquet"),
        ("memory://one/t", "memory://one/t2/a.parquet", None),
        ("memory://one/t", "memory://two/t/a.parquet", None),
        ("memory://one/t", "file:///t/a.parquet", None),
        ("az://box/t", "az://box/t/a.parquet", "a.parquet"),
        ("az://box/t", "abfss://box@other.dfs.core.windows.net/t/a.parquet", None),
        ("abfss://box@mine.dfs.core.windows.net/t", "abfss://box@mine.dfs.core.windows.net/t/a?b#c", "a?b#c"),
        ("abfss://box@mine.dfs.core.windows.net/t", "https://mine.blob.core.windows.net/box/t/a", "a"),
        ("abfss://box@mine.dfs.core.windows.net/t", "abfss://box@other.dfs.core.windows.net/t/a.parquet", None),
        ("s3://bucket/t", "s3a://bucket/t/a.parquet", "a.parquet"),
        ("s3://bucket/t", "s3://other/t/a.parquet", None),
    ],
)
def test_which_paths_are_the_table_s_own(
    table: str, path: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "abcdefgh")
    options = {"account_key": "bm90aGluZw=="} if "az" in table or "abfss" in table else None
    places = Places(TableAccess(open_store(table, options), options), RequestLog())
    if expected is None:
        with pytest.raises(UnreadableFileError, match="is outside of the table"):
            places.find(path)
    else:
        assert places.find(path)[1] == expected


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("https://example.com/a.parquet", "is not that of an Azure storage account"),
        ("http://10.0.0.1/account/box/a.parquet", "an address of the web"),
        ("https://other.blob.core.windows.net/box/a.parquet", "an address of the web"),
        ("s3://bucket/a.parquet", "cannot be opened as the table is"),
        ("gopher://place/a.parquet", "the scheme 'gopher' is not supported"),
        ("az://box/a/../b.parquet", r"segments"),
        ("wasbs://box@mine.blob.core.windows.net/a.parquet", "the scheme 'wasbs' is not supported"),
    ],
)
def test_what_cannot_be_opened_says_so(path: str, reason: str) -> None:
    """Storage options are for the table's own account: they are not sent wherever a log says."""
    options = {"account_name": "mine", "account_key": "bm90aGluZw=="}
    access = TableAccess(open_store("az://box/t", options), options, allow_external_paths=True)
    with pytest.raises(UnreadableFileError, match=reason):
        Places(access, RequestLog()).find(path)


@pytest.mark.parametrize("options", [None, EXTERNAL])
@pytest.mark.parametrize(
    "path",
    [
        f"https://acct.blob.core.windows.net/box/t/a.parquet?sv=2020&sig={SECRET}",
        f"abfss://box@acct.dfs.core.windows.net/t/a.parquet?sig={SECRET}",
        f"s3://key:{SECRET}@bucket/t/a.parquet",
        f"ftp://user:{SECRET}@host/a.parquet",
        f"file:///nowhere/a.parquet?sig={SECRET}",
    ],
)
def test_a_secret_in_a_path_of_the_log_is_not_shown(tmp_path: Path, path: str, options: dict[str, bool] | None) -> None:
    table = TableBuilder(tmp_path, schema={"id": "long", "p": "long"}, partition_columns=["p"])
    table.commit([add(path, stats=None, partition_values={"p": "no number"})])
    dataset = DeltaTable(tmp_path, options=options).to_pyarrow_dataset()
    for ask in (dataset.to_table, lambda: dataset.count_rows(filter=pc.field("p") > 0)):
        with pytest.raises(DeltaSidecarError) as refusal:
            ask()
        told = "".join(traceback.format_exception(refusal.value)) + repr(vars(refusal.value))
        assert SECRET not in told
        assert "a.parquet" in told


def test_the_way_to_files_shows_no_secrets() -> None:
    options = {"account_name": "mine", "account_key": "bm90aGluZw=="}
    assert "bm90" not in repr(TableAccess(open_store("az://box/t", options), options))


# --- deletion vectors -------------------------------------------------------------------------------------------


def test_deletion_vectors_wherever_they_are(tmp_path: Path) -> None:
    root = tmp_path / "table"
    built = TableBuilder(root, schema={"id": "long"}, protocol=WITH_VECTORS)
    vectors = [
        inline_vector([0]),
        stored_vector(root, [0, 1]),
        stored_vector(root, [1, 3], prefix="ab"),
        absolute_vector(root / "own vectors%/a.bin", [0, 1, 2]),
        inline_vector([0, 1, 2, 3]),
        None,
    ]
    built.commit([put(built, f"{number}.parquet", ROWS, dv=vector) for number, vector in enumerate(vectors)])
    stream = DeltaTable(root).scan()
    found = [batch.column("id").to_pylist() for batch in stream]
    assert sorted(found) == sorted([[1, 2, 3], [2, 3], [0, 2], [3], [0, 1, 2, 3]])
    assert stream.metrics.rows_deleted == 1 + 2 + 2 + 3 + 4
    for columns in ([], ["id"]):
        assert sum(batch.num_rows for batch in DeltaTable(root).scan(columns)) == 12


def test_deletion_vectors_reach_over_row_groups_and_batches(tmp_path: Path) -> None:
    rows = pa.table({"id": range(10_000)})
    deleted = [*range(5), *range(990, 1010), 2_000, *range(3_000, 4_000), 9_999]
    built = TableBuilder(tmp_path, schema={"id": "long"}, protocol=WITH_VECTORS)
    built.commit([put(built, "a.parquet", parquet(rows, row_group_size=2_500), dv=inline_vector(deleted))])
    expected = sorted(set(range(10_000)) - set(deleted))
    assert ids(built) == expected
    assert ids(built, options={"rows_per_batch": 1_024}) == expected
    # Rows are counted from the beginning of the file, whatever is left out of it.
    assert ids(built, predicate="id >= 2000 AND id < 5000") == [*range(2_001, 3_000), *range(4_000, 5_000)]
    assert ids(built, predicate="id > 9990") == [*range(9_991, 9_999)]


def test_a_deletion_vector_is_fetched_only_with_its_file(tmp_path: Path) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"}, protocol=WITH_VECTORS)
    for number in range(10):
        vector = stored_vector(tmp_path, [0])
        stats = {"numRecords": 4, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
        rows = pa.table({"id": [number] * 4})
        built.commit([put(built, f"{number}.parquet", rows, dv=vector, stats=stats)])
    for missing in tmp_path.glob("deletion_vector_*.bin"):
        missing.unlink()
    assert ids(built, predicate="id = 11") == []
    with pytest.raises(DeletionVectorError, match=r"the deletion vector of 7.parquet cannot be read") as refused:
        ids(built, predicate="id = 7")
    assert isinstance(refused.value.__cause__, FileNotFoundError)


def test_a_deletion_vector_elsewhere_is_read_where_that_is_allowed(tmp_path: Path) -> None:
    vector = absolute_vector(tmp_path / "elsewhere/v.bin", [1, 2])
    built = TableBuilder(tmp_path / "table", schema={"id": "long"}, protocol=WITH_VECTORS)
    built.commit([put(built, "a.parquet", ROWS, dv=vector)])
    with pytest.raises(DeletionVectorError, match=r"a.parquet .* is outside of the table .*allow_external_paths"):
        ids(built)
    assert ids(built, options=EXTERNAL) == [0, 3]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cardinality": 3}, "cannot be read"),
        ({"sizeInBytes": 5}, "cannot be read"),
        ({"storageType": "x"}, "storage type 'x' is not known"),
        ({"cardinality": 5}, "deletes 5 rows of a file that has 4"),
    ],
)
def test_a_deletion_vector_that_is_not_what_it_says_gives_no_rows(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    built = TableBuilder(tmp_path, schema={"id": "long"}, protocol=WITH_VECTORS)
    built.commit([put(built, "a.parquet", ROWS, dv=stored_vector(tmp_path, [1, 2]) | change)])
    with pytest.raises(DeletionVectorError, match=reason):
        ids(built)


# --- secrets ----------------------------------------------------------------------------------------------------


def told(error: BaseException) -> str:
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return "\n".join([*map(repr, causes), *map(str, causes), *traceback.format_exception(error)])


def in_azure(azurite: Azurite, files: Iterable[tuple[str, bytes | None]], absolute: str = "") -> str:
    """Writes a table of some files, of which some are missing, and gives its address."""
    address = f"az://{azurite.create_container()}/t {uuid.uuid4().hex}"
    store = open_store(address, azurite.options)
    listed = [add(absolute or quote(name), size=len(content or b"PAR1" * 9)) for name, content in files]
    for name, content in files:
        if content is not None:
            store.put(name, content)
    lines = [protocol(), metadata({"id": "long"}), *listed]
    store.put(f"_delta_log/{0:020}.json", "\n".join(map(dump, lines)).encode())
    return address


@pytest.mark.azurite
def test_rows_come_out_of_azure_and_errors_hold_no_secret(azurite: Azurite) -> None:
    content = parquet(ROWS)
    address = in_azure(azurite, [("a b.parquet", content)])
    with DeltaTable(address, storage_options=azurite.options) as table:
        assert sum(batch.num_rows for batch in table.scan()) == 4
    sas = azurite.account_sas()
    signed = {"account_name": azurite.account, "sas_token": sas, "endpoint": azurite.endpoint}
    elsewhere = address.replace("az://", "abfss://").replace("/t ", f"@{azurite.account}.dfs.core.windows.net/t ")
    for files, absolute in (
        ([("missing.parquet", None)], ""),
        ([("torn.parquet", content[:-20])], ""),
        ([("gone.parquet", None)], f"{elsewhere}/other.parquet".replace(" ", "%20")),
    ):
        broken = in_azure(azurite, files, absolute)
        for options in (azurite.options, signed):
            table = DeltaTable(broken, storage_options=options, options=EXTERNAL)
            with pytest.raises(UnreadableFileError) as failed:
                list(table.scan())
            text = told(failed.value)
            assert "parquet" in text
            for secret in (azurite.key, quote(azurite.key, safe=""), sas, sas.split("sig=")[1]):
                assert secret not in text
