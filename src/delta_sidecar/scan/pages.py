"""Page tokens: where a scan stands, as a text that another process can go on from.

A token holds neither the table's address nor any credentials: the version, which base (by name and a digest of its
files' e_tags), the strategy and order, a digest of the predicate, and the place: a file of the log, which part of it,
and how many files of that were emitted.
"""

from __future__ import annotations

import base64
import binascii
from itertools import starmap
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec.structs import astuple

from delta_sidecar.errors import PageTokenError, PageTokenExpiredError
from delta_sidecar.log.names import HIGHEST_VERSION
from delta_sidecar.plan import Place
from delta_sidecar.replay.request import Emitted
from delta_sidecar.scan.stream import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from delta_sidecar.replay.bases.choice import BaseChoice
    from delta_sidecar.replay.request import BaseMark
    from delta_sidecar.replay.snapshot import Snapshot

FORMAT = 4
"""Grows with every change of what tokens hold, or of the order in which a place's files come."""

_MOST_CHARACTERS = 1 << 16
_DIGEST_BYTES = 8
_NOT_OURS = "the page token is not one of ours: begin at the first page"

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_BaseVersion = Annotated[int, msgspec.Meta(ge=-1, le=(1 << 63) - 1)]


class _Header(msgspec.Struct, frozen=True):
    f: int


_Emitted = tuple[str, Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_VERSION)], str, _Count, bool, _BaseVersion]


class PageToken(msgspec.Struct, frozen=True):
    """The position of a scan, and the scan's identity."""

    format: int = msgspec.field(name="f")  # the format of the token
    table: str = msgspec.field(name="t")  # the table's own id
    version: _Count = msgspec.field(name="v")  # the version that is read
    commit: str | None = msgspec.field(name="c")  # the e_tag of the version's commit; None where the store gives none
    # Name of the base, empty for the start of the log; its version, or that of an older one which commits were
    # read down to; and a digest of what identifies its files.
    base: tuple[str, _BaseVersion, str] = msgspec.field(name="b")
    strategy: Literal["reverse", "forward"] = msgspec.field(name="s")  # `reverse` or `forward`
    order: Literal["recent", "any"] = msgspec.field(name="o")  # `recent` or `any`
    query: str = msgspec.field(name="q")  # digest of the predicate
    # A file of the log, the part of it, and how many files of that were emitted.
    place: tuple[str, _Count, _Count] = msgspec.field(name="p")
    emitted: tuple[_Emitted, ...] = msgspec.field(name="d")  # what was emitted of bases that failed

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        base: BaseMark,
        strategy: str,
        order: Literal["recent", "any"],
        query: str,
        at: Position,
        emitted: Iterable[Emitted],
    ) -> PageToken:
        """Makes one for where a scan stands."""
        return cls(
            FORMAT,
            snapshot.metadata.id,
            snapshot.version,
            snapshot.choice.segment.e_tag,
            _base(base),
            "forward" if strategy == "forward" else "reverse",
            order,
            query,
            (at.place.path, at.place.part, at.rows),
            tuple(map(astuple, emitted)),
        )

    def encode(self) -> str:
        """The token as a text of letters, digits, `-` and `_`."""
        content = msgspec.json.encode(self)
        return base64.urlsafe_b64encode(_check(content) + content).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> PageToken:
        """Reads one.

        Raises:
            PageTokenError: It is damaged.
            PageTokenExpiredError: Another version of this library made it.
        """
        try:
            content = _content(text)
        except (ValueError, binascii.Error, AttributeError, TypeError):
            msg = "the page token is damaged: hand it over as it was given, or begin at the first page"
            raise PageTokenError(msg) from None
        try:
            if msgspec.json.decode(content, type=_Header).f == FORMAT:
                token = msgspec.json.decode(content, type=cls)
                if (token.strategy, token.order) != ("forward", "recent"):
                    return token
                raise PageTokenError(_NOT_OURS)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise PageTokenError(_NOT_OURS) from None
        msg = "the page token was made by another version of delta-sidecar: begin at the first page"
        raise PageTokenExpiredError(msg)

    @property
    def position(self) -> Position:
        """The place, and how many files of it were emitted."""
        path, part, rows = self.place
        return Position(Place(path, part), rows)

    @property
    def emitted_before(self) -> tuple[Emitted, ...]:
        """The files that earlier pages emitted of metadata sidecars before those failed."""
        return tuple(starmap(Emitted, self.emitted))

    @property
    def base_version(self) -> int:
        """Version of the base, or that of an older one which commits were read down to."""
        return self.base[1]

    def check_query(self, query: str) -> None:
        """Refuses another query.

        Raises:
            PageTokenError: It is another one.
        """
        if query != self.query:
            msg = "the page token belongs to a scan with another predicate or bucket column"
            raise PageTokenError(msg)

    def choice(self, snapshot: Snapshot) -> BaseChoice:
        """The log and the bases from the token's own down.

        Raises:
            PageTokenExpiredError: The base is gone, or the table is another one.
        """
        choice = snapshot.choice
        if snapshot.metadata.id != self.table or choice.segment.e_tag != self.commit:
            msg = f"{snapshot.table} was replaced since the page token was made: begin at the first page"
            raise PageTokenExpiredError(msg)
        name, version, digest = self.base
        found = choice.down_from(name) if name else choice.from_start()
        if found is not None and version < found.base_version:
            found = found.reaching(version)
        if found is None or _base(found.mark)[2] != digest:
            base = name or "the start of the log"
            msg = (
                f"{snapshot.table}: {base}, which the page token is a place after, is gone or was replaced: begin at "
                f"the first page"
            )
            raise PageTokenExpiredError(msg)
        return found


def query_digest(*parts: object) -> str:
    """A digest of what a query asks for."""
    from hashlib import blake2b

    return blake2b("\n".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def _base(mark: BaseMark) -> tuple[str, int, str]:
    return mark.name, mark.reach, query_digest(*mark.identity) if mark.name else ""


def _check(content: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _content(text: str) -> bytes:
    if len(text) > _MOST_CHARACTERS:
        msg = "too long"
        raise ValueError(msg)
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    check, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if check != _check(content):
        msg = "not a token"
        raise ValueError(msg)
    return content
