"""Page tokens that no scan has written: damaged, forged, or of another release."""

from __future__ import annotations

import base64
import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pytest
from tests.builder import TableBuilder
from tests.scan.paged import HOUR, hours
from tests.scan.reading import STRATEGIES, scan, scanner

from delta_sidecar import LazyScanConfig, PageTokenError, PageTokenExpiredError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return hours(TableBuilder(tmp_path, schema=HOUR, partition_columns=["_event_hour"]))


def damaged(token: str) -> Iterator[str]:
    yield ""
    yield "x"
    yield token[:-3]
    yield token[:10] + ("A" if token[10] != "A" else "B") + token[11:]
    yield token + "é"
    yield "A" * 100_000


def test_a_damaged_token_is_refused(table: TableBuilder) -> None:
    reader = scanner(table, limit=3)
    list(reader.scan_files())
    for text in damaged(reader.page_token or ""):
        with pytest.raises(PageTokenError, match="damaged"):
            LazyScanConfig(page_token=text)


def content_of(token: str) -> dict[str, Any]:
    return json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))[8:])


def forged(token: str, **changes: object) -> str:
    content = json.dumps(content_of(token) | changes).encode()
    return base64.urlsafe_b64encode(blake2b(content, digest_size=8).digest() + content).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"v": -1},
        {"v": "5"},
        {"v": True},
        {"p": ["x"]},
        {"p": [7, 0, 0]},
        {"p": None},
        {"b": []},
        {"b": ["x", -2, ""]},
        {"q": None},
        {"t": 5},
        {"s": "sideways"},
        {"s": "auto"},
        {"o": "oldest"},
        {"s": "forward", "o": "recent"},
        {"p": ["\ud800", 0, 1]},
    ],
    ids=ascii,
)
def test_a_forged_token_is_refused(table: TableBuilder, changes: dict[str, object]) -> None:
    reader = scanner(table, limit=3, order="any")
    list(reader.scan_files())
    with pytest.raises(PageTokenError):
        LazyScanConfig(page_token=forged(reader.page_token or "", **changes))


def test_a_forged_place_leads_nowhere(table: TableBuilder) -> None:
    reader = scanner(table, limit=28, order="any")
    list(reader.scan_files())
    token = forged(reader.page_token or "", p=["../../etc/passwd", 0, 1])
    with pytest.raises(PageTokenExpiredError, match="no part of the checkpoint"):
        scan(table, page_token=token)


@pytest.mark.parametrize("limit", [3, 28])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_place_that_has_fewer_files_than_were_given_out_is_refused(
    table: TableBuilder, limit: int, strategy: str
) -> None:
    reader = scanner(table, limit=limit, order="any", strategy=strategy)
    list(reader.scan_files())
    path, part, _ = content_of(reader.page_token or "")["p"]
    with pytest.raises(PageTokenExpiredError, match="does not have the files"):
        scan(table, page_token=forged(reader.page_token or "", p=[path, part, 99]))
    with pytest.raises(PageTokenExpiredError, match="does not have the files"):
        scan(table, page_token=forged(reader.page_token or "", p=[path, part + 99, 1]))
    with pytest.raises(PageTokenError):
        scan(table, limit=1, page_token=forged(reader.page_token or "", p=[path, part, 10**30]))
    with pytest.raises(PageTokenExpiredError):
        scan(table, limit=1, page_token=forged(reader.page_token or "", p=[path, part, (1 << 63) - 1]))


def test_a_token_of_another_version_of_the_library_is_refused(table: TableBuilder) -> None:
    reader = scanner(table, limit=3)
    list(reader.scan_files())
    with pytest.raises(PageTokenExpiredError, match="another version of delta-sidecar"):
        LazyScanConfig(page_token=forged(reader.page_token or "", f=1))
