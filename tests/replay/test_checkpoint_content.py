"""What the footers of a checkpoint's files must tell, file by file."""

from __future__ import annotations

import pickle

import pytest

from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.plan import FileSummary
from delta_sidecar.replay.bases.checkpoint import CheckpointContent

TOP = {"protocol.minReaderVersion": 1, "metaData.id": 1}
Values = dict[str, int | None]


def check(*files: tuple[int, Values], has_top: bool = True) -> None:
    test = pickle.loads(pickle.dumps(CheckpointContent(has_top)))  # noqa: S301 - its own bytes
    test([FileSummary(f"f{number}", rows, values) for number, (rows, values) in enumerate(files)])


@pytest.mark.parametrize(
    "values",
    [
        {**TOP, "add.path": 8},
        {**TOP, "add.path": 0},
        {**TOP, "add.path": None},
        {"protocol.minReaderVersion": None, "metaData.id": None, "add.path": None},
        {"protocol.minReaderVersion": 1, "metaData.id": 0, "metaData.schemaString": 1, "add.path": 8},
        {**TOP, "remove.path": 8},
        {**TOP, "remove.path": 5, "txn.appId": None, "txn.version": 3},
        {**TOP, "txn.appId": 2, "domainMetadata.domain": 6},
        {**TOP, "sidecar.path": 3},
        {**TOP, "sidecar.path": None},
    ],
)
def test_what_may_be_a_checkpoint_is_one(values: Values) -> None:
    check((10, values))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "no protocol"),
        ({"add.path": 10}, "no protocol"),
        ({**TOP, "protocol.minReaderVersion": 0, "add.path": 9}, "no protocol"),
        ({"protocol.minReaderVersion": 1, "add.path": 9}, "no metaData"),
        ({**TOP, "metaData.id": 0, "add.path": 9}, "no metaData"),
        (TOP, r"no column add\.path, and 8 of its rows"),
        ({**TOP, "remove.path": 7}, "and 1 of its rows"),
        ({**TOP, "remove.path": None}, "and 8 of its rows"),
        ({**TOP, "sidecar.path": 0, "sidecar.sizeInBytes": 0}, "and 8 of its rows"),
    ],
)
def test_what_cannot_be_a_checkpoint_is_refused(values: Values, why: str) -> None:
    with pytest.raises(UnreadableFileError, match=f"^f0: it has .*{why}") as refused:
        check((10, values))
    assert refused.value.path == "f0"


def test_parts_have_protocol_and_metadata_between_them() -> None:
    check((5, {"add.path": 5}), (1, {"metaData.id": 1}), (1, {"protocol.minReaderVersion": 1}), (2, {"txn.appId": 2}))
    with pytest.raises(UnreadableFileError, match=r"^f0: it has no metaData"):
        check((5, {"add.path": 5}), (1, {"protocol.minReaderVersion": 1}))


def test_every_part_has_to_be_one() -> None:
    part = (9, {**TOP, "add.path": 7})
    with pytest.raises(UnreadableFileError, match=r"^f1: it has none of the columns"):
        check(part, (0, {}))
    with pytest.raises(UnreadableFileError, match=r"^f2: it has no column"):
        check(part, part, (3, {"txn.appId": 2}))


def test_checkpoint_sidecars_have_files_alone() -> None:
    check((9, {"add.path": 7}), (3, {"remove.path": 3}), (0, {"remove.path": 0}), has_top=False)
    with pytest.raises(UnreadableFileError, match=r"^f0: it has no column"):
        check((9, {"sidecar.path": None}), has_top=False)
