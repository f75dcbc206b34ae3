"""Listings that are stale, odd or hold strangers, and hints that mislead: the right answer, or the version is named."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.builder import TableBuilder, add
from tests.scan.reading import STRATEGIES, agrees_with_model, keys_of, scan, scanner, store_of
from tests.scan.small_history import FIRST, LAST, fails_without_seeming_complete, history

from delta_sidecar import MissingCommitError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.store.testing import EmptyAfterOffset, FaultStore, Hide, IgnoreOffset, RecordingStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("checksum", [False, True])
def test_a_listing_without_the_newest_commit_gives_the_version_before(tmp_path: Path, *, checksum: bool) -> None:
    table = history(tmp_path, checksum=checksum)
    stale = FaultStore(store_of(table), Hide(f"*{LAST:020}.json"))
    assert scanner(table, stale).snapshot().version == LAST - 1
    for strategy in STRATEGIES:
        found = scan(table, stale, strategy=strategy)
        assert keys_of(found) == sorted(table.model_files(LAST - 1), key=repr)


@pytest.mark.parametrize("hidden", range(FIRST, LAST))
@pytest.mark.parametrize("hint", [True, False])
def test_a_commit_that_the_listing_skips_is_found_by_name(tmp_path: Path, hidden: int, *, hint: bool) -> None:
    table = history(tmp_path, last_checkpoint=hint)
    agrees_with_model(table, FaultStore(store_of(table), Hide(f"*{hidden:020}.json")))


@pytest.mark.parametrize("missing", range(FIRST, LAST))
def test_a_commit_that_is_nowhere_is_named(tmp_path: Path, missing: int) -> None:
    table = history(tmp_path)
    table.delete_commit(missing)
    for message in fails_without_seeming_complete(table, MissingCommitError):
        assert f"commit {missing} " in message


@pytest.mark.parametrize("rule", [IgnoreOffset(), EmptyAfterOffset()])
@pytest.mark.parametrize("version", [None, 0, 3, 5])
def test_listings_that_do_not_understand_offsets(
    tmp_path: Path, rule: IgnoreOffset | EmptyAfterOffset, version: int | None
) -> None:
    table = history(tmp_path)
    agrees_with_model(table, FaultStore(store_of(table), rule), version=version)


def test_an_offset_listing_without_the_checkpoint_is_made_again_in_full(tmp_path: Path) -> None:
    table = history(tmp_path)
    table.checkpoint()
    store = RecordingStore(FaultStore(store_of(table), Hide(f"*{LAST:020}.checkpoint.parquet")))
    agrees_with_model(table, store)
    assert store.paths("list") == ["_delta_log/"] * 4


def test_an_older_version_is_read_where_the_hint_has_no_base_for_it(tmp_path: Path) -> None:
    table = history(tmp_path)
    table.clean_up()
    table.checkpoint()
    table.last_checkpoint('{"version":5,"size":1}')
    agrees_with_model(table, version=6)


HINTS = {
    "missing": None,
    "empty": "",
    "not JSON": "{",
    "not an object": "[3]",
    "no version": "{}",
    "a text": '{"version":"3"}',
    "a fraction": '{"version":3.5}',
    "null": '{"version":null}',
    "true": '{"version":true}',
    "negative": '{"version":-1}',
    "stale": '{"version":0}',
    "without a checkpoint": '{"version":2}',
    "a version of the tail": '{"version":6}',
    "the future": '{"version":1000}',
    "huge": '{"version":99999999999999999999}',
    "beyond all names": '{"version":' + "9" * 40 + "}",
    "thousands of digits": '{"version":' + "9" * 5000 + "}",
    "nested": "[" * 100_000,
    "a megabyte and more": '{"version":3,"x":"' + "x" * (2 << 20) + '"}',
    "wrong parts": '{"version":3,"parts":17,"size":-1,"v2Checkpoint":{"path":"../x"}}',
}


@pytest.mark.parametrize("hint", HINTS)
def test_the_last_checkpoint_is_only_a_hint(tmp_path: Path, hint: str) -> None:
    table = history(tmp_path)
    table.last_checkpoint(HINTS[hint])
    agrees_with_model(table)
    agrees_with_model(table, version=5)


def test_a_last_checkpoint_that_is_not_text(tmp_path: Path) -> None:
    table = history(tmp_path)
    (table.log / "_last_checkpoint").write_bytes(b"\xff\xfe\x00\x00{")
    agrees_with_model(table)


def test_a_commit_of_an_absurd_version_is_an_error_at_once(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    (table.log / ("9" * 20 + ".json")).write_text("{}")
    program = (
        "import sys\n"
        "from delta_sidecar import LazyDeltaScanner, MissingCommitError\n"
        "try:\n    list(LazyDeltaScanner(sys.argv[1]).scan_files())\n"
        "except MissingCommitError as error:\n    sys.exit(0 if error.version == 1 else 3)\n"
    )

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], check=False, timeout=120, capture_output=True, preexec_fn=bounded
    )
    assert done.returncode == 0, done.stderr.decode()[-500:]


def test_what_is_no_part_of_a_log_is_passed_over(tmp_path: Path) -> None:
    table = history(tmp_path)
    for name in (
        ".00000000000000000005.json.crc",
        "00000000000000000009.json.tmp",
        "00000000000000000009.checkpoint.parquet.tmp",
        "00000000000000000009.00000000000000000012.compacted.json",
        "00000000000000000009.checkpoint.0000000001.0000000002.parquet",
        "_staged_commits/00000000000000000008.aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee.json",
        "0000000000000000009.json",
        "000000000000000000009.json",
        "00000000000000000009.JSON",
        "readme.txt",
        "_commits/00000000000000000009.json",
    ):
        path = table.log / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"not for you")
    agrees_with_model(table)


def test_no_log_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        scan(TableBuilder(tmp_path))
    with pytest.raises(VersionNotFoundError, match="newest is 7"):
        scan(history(tmp_path / "t"), version=8)
