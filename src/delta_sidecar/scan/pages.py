"""Page tokens: where a scan stands, as a text that another process can go on from.

A token holds neither the table's address nor any credentials: the version, which base (by name and a digest of its
files' e_tags), the strategy and order, a digest of the predicate, and the place: a file of the log, which part of it,
and how many files of that were given out.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from delta_sidecar.errors import PageTokenError, PageTokenExpiredError
from delta_sidecar.plan import Place
from delta_sidecar.replay.bases.base import Decided
from delta_sidecar.replay.resume import BrokenOff, GivenKeys, KeysBetween, given_from_json, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from delta_sidecar.plan.nodes import RowTest
    from delta_sidecar.replay.snapshot import BaseChoice, Snapshot
    from delta_sidecar.scan.strategy import Decision

    Decisions = tuple[Decided, ...]


FORMAT = 3
"""Grows with every change of what tokens hold, or of the order in which a place's files come."""

_MOST_CHARACTERS = 1 << 16
_DIGEST_BYTES = 8
# Strategy and order.
_WAYS = {("reverse", "recent"), ("reverse", "any"), ("forward", "any")}


@dataclass(frozen=True, slots=True)
class PageToken:
    """Where a scan stands, and of what.

    Attributes:
        table: The table's own id.
        version: The version that is read.
        commit: What identifies the version's commit; None where the store does not tell.
        base: Name of the base; empty for the start of the log.
        base_version: Its version, or that of an older one which commits were gone through down to.
        base_digest: Digest of what identifies its files.
        strategy: `reverse` or `forward`.
        order: `recent` or `any`.
        query: Digest of the predicate.
        position: The place.
        decided: What bases decided on before they broke off: the version each was read down to, and which files.
    """

    table: str
    version: int
    commit: str | None
    base: str
    base_version: int
    base_digest: str
    strategy: str
    order: str
    query: str
    position: Position
    decided: tuple[tuple[int, Mapping[str, Any]], ...] = ()

    @classmethod
    def of(
        cls, snapshot: Snapshot, choice: BaseChoice, decision: Decision, query: str, at: Position, decided: Decisions
    ) -> PageToken:
        """Makes one.

        Raises:
            PageTokenError: A base broke off that cannot tell where in words.
        """
        name, version, digest = _base(choice)
        table, commit = snapshot.metadata.id, choice.segment.e_tag
        told = []
        for each in decided:
            if not isinstance(each.test, GivenKeys | KeysBetween):
                msg = f"{snapshot.table}: {name} broke off, and where it did cannot be put into a page token"
                raise PageTokenError(msg)
            told.append((each.version, each.test.to_json()))
        strategy, order = decision.strategy.value, decision.order
        return cls(table, snapshot.version, commit, name, version, digest, strategy, order, query, at, tuple(told))

    def encode(self) -> str:
        """The token as a text of letters, digits, `-` and `_`."""
        place, rows = self.position.place, self.position.rows
        fields: dict[str, Any] = {
            "f": FORMAT,
            "t": self.table,
            "v": self.version,
            "c": self.commit,
            "b": [self.base, self.base_version, self.base_digest],
            "s": self.strategy,
            "o": self.order,
            "q": self.query,
            "p": [place.path, place.part, rows],
            "d": [list(each) for each in self.decided],
        }
        content = json.dumps(fields, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_check(content) + content).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> PageToken:
        """Reads one.

        Raises:
            PageTokenError: It is damaged.
            PageTokenExpiredError: Another version of this library made it.
        """
        try:
            fields = _content(text)
        except (ValueError, binascii.Error, AttributeError, TypeError, RecursionError):
            msg = "the page token is damaged: hand it over as it was given, or begin at the first page"
            raise PageTokenError(msg) from None
        if fields.get("f") != FORMAT:
            msg = "the page token was made by another version of delta-sidecar: begin at the first page"
            raise PageTokenExpiredError(msg)
        try:
            return cls._from_fields(fields)
        except (KeyError, TypeError, ValueError):
            msg = "the page token is not one of ours: begin at the first page"
            raise PageTokenError(msg) from None

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any]) -> PageToken:
        base, base_version, base_digest = fields["b"]
        path, part, rows = fields["p"]
        words = (fields["t"], fields["c"] or "", base, base_digest, fields["s"], fields["o"], fields["q"], path)
        if not all(map(is_text, words)):
            raise TypeError
        if not all(map(_is_count, (fields["v"], part, rows))) or not (base_version == -1 or _is_count(base_version)):
            raise TypeError
        decided = tuple((version, told) for version, told in fields["d"])
        if not all((version == -1 or _is_count(version)) and isinstance(told, dict) for version, told in decided):
            raise TypeError
        if (fields["s"], fields["o"]) not in _WAYS:
            raise ValueError
        return cls(
            table=fields["t"],
            version=fields["v"],
            commit=fields["c"],
            base=base,
            base_version=base_version,
            base_digest=base_digest,
            strategy=fields["s"],
            order=fields["o"],
            query=fields["q"],
            position=Position(Place(path, part), rows),
            decided=decided,
        )

    def decisions(self, snapshot: Snapshot, read_again: Callable[[BrokenOff], RowTest]) -> Decisions:
        """What bases decided on before they broke off.

        Args:
            snapshot: The table.
            read_again: Reads which files a metadata sidecar let through before it broke off.

        Raises:
            PageTokenError: That is out of form.
        """
        columns = snapshot.columns
        names = dict(zip(columns.physical_partition_columns, columns.partition_columns, strict=True))
        try:
            tests = [
                BrokenOff.from_json(told) if "base" in told else given_from_json(told, names)
                for _, told in self.decided
            ]
        except ValueError:
            msg = "the page token is not one of ours: begin at the first page"
            raise PageTokenError(msg) from None
        return tuple(
            Decided(version, read_again(test) if isinstance(test, BrokenOff) else test)
            for (version, _), test in zip(self.decided, tests, strict=True)
        )

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
        found = choice.down_from(self.base) if self.base else choice.from_start()
        if found is not None and self.base_version < found.base_version:
            found = found.reaching(self.base_version)
        if found is None or _base(found)[2] != self.base_digest:
            base = self.base or "the start of the log"
            msg = (
                f"{snapshot.table}: {base}, which the page token is a place after, is gone or was replaced: begin at "
                f"the first page"
            )
            raise PageTokenExpiredError(msg)
        return found


def query_digest(*parts: object) -> str:
    """A digest of what a query asks for."""
    return blake2b("\n".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def _base(choice: BaseChoice) -> tuple[str, int, str]:
    if not choice.bases:
        return "", -1, ""
    base = choice.bases[0]
    return base.name, choice.tail_base, query_digest(*sorted(base.identity.items()))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _check(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _content(text: str) -> Mapping[str, Any]:
    if len(text) > _MOST_CHARACTERS:
        msg = "too long"
        raise ValueError(msg)
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    check, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    fields = json.loads(content) if check == _check(content) else None
    if not isinstance(fields, dict):
        msg = "not a token"
        raise TypeError(msg)
    return fields


# Where a scan stands: after which file, of what it gave out, and of what another scan gave out before it.


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where a scan came.

    Attributes:
        place: Where its last file is from.
        rows: How many files of that place were given out.
    """

    place: Place
    rows: int


class _Standing(NamedTuple):
    """Where a scan stands in the batch that it gave last.

    Attributes:
        before: Where it stood before that batch.
        place: Where the batch is from.
        rows: Files of that place that were given out before the batch.
        batch: The batch; None before the first.
        taken: Files of the batch that were given out.
    """

    before: Position | None
    place: Place | None
    rows: int
    batch: pa.RecordBatch | None = None
    taken: int = 0


class Cursor:
    """Follows what a scan gives out, file by file. Where it stands can be asked from any thread."""

    def __init__(self, start: Position | None) -> None:
        # One value, so that whoever asks from another thread finds what belongs together.
        self._standing = _Standing(start, None, 0) if start is None else _Standing(start, start.place, start.rows)

    def give(self, batch: pa.RecordBatch, place: Place | None) -> None:
        """A batch goes out, none of whose files counts yet."""
        last = self._standing
        rows = 0
        if place == last.place:
            rows = last.rows + (0 if last.batch is None else last.batch.num_rows)
        self._standing = _Standing(self.position(), place, rows, batch)

    def take(self, files: int) -> None:
        """So many more of its files are given out."""
        self._standing = self._standing._replace(taken=self._standing.taken + files)

    def position(self) -> Position | None:
        """After the last file that was given out; None before the first."""
        at = self._standing
        if at.batch is None or not at.taken:
            return at.before
        return None if at.place is None else Position(at.place, at.rows + at.taken)


@dataclass(slots=True)
class GivenBefore:
    """Passes over the files that another scan gave out of the place where this one begins."""

    position: Position | None
    _passed: int = field(default=0)

    def left(self, batch: pa.RecordBatch, place: Place | None) -> pa.RecordBatch:
        """What is left of a batch."""
        at = self.position
        if at is None or self._passed == at.rows:
            return batch
        if place != at.place:
            self.check()
        skipped = min(batch.num_rows, at.rows - self._passed)
        self._passed += skipped
        return batch.slice(skipped)

    def check(self) -> None:
        """Refuses to go on where there are fewer files at the place than were given out.

        Raises:
            PageTokenExpiredError: So it is.
        """
        at = self.position
        if at is not None and self._passed < at.rows:
            msg = (
                f"{at.place.path} does not have the files any more that the page token is a place after: begin at the "
                f"first page"
            )
            raise PageTokenExpiredError(msg)
