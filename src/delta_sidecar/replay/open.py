"""From an address to a listed log: which version, which bases, which commits.

    hint -> listing -> (commits that the listing skipped) -> segment

`_last_checkpoint` only shortens the listing. A listing that starts there and does not show a base is made again in
full; a commit that a listing skipped is asked for by name before it counts as missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from delta_sidecar.errors import MissingCommitError, VersionNotFoundError
from delta_sidecar.events import Events
from delta_sidecar.log.names import (
    HIGHEST_VERSION,
    LAST_CHECKPOINT,
    LOG_FOLDER,
    SIDECAR_FOLDER,
    checksum_path,
    commit_path,
    last_checkpoint_version,
    listing_start,
    manifest_name,
)
from delta_sidecar.log.segment import ListedFile, LogListing, LogSegment
from delta_sidecar.plan import NOTHING_AHEAD, Ahead, Consume, FileRef, ListFiles, ReadFiles

if TYPE_CHECKING:
    from delta_sidecar.plan import Flow
    from delta_sidecar.replay.request import Question

_HINT_BYTES = 1 << 20
_PROBED_AT_ONCE = 10

NO_HINT = -1
"""Lists the whole log without asking `_last_checkpoint`."""


class Opening(Struct, frozen=True):
    """The table to open, and how."""

    table: str  # the table's address, for messages
    version: int | None = None  # the version to read; None for the newest
    speculation: int = 10  # how many commits after the last checkpoint are asked for before it is known that they exist
    # Whether every commit of the tail will be read, so that they are worth asking for together.
    whole_tail: bool = False
    whole_base: bool = False  # whether the base will be read as well
    # Version to begin the listing at, without asking `_last_checkpoint`; `NO_HINT` for all of it, None to ask.
    hint: int | None = None
    # Whether a table that asks its readers for more than this library can do is refused; else it is opened all
    # the same, to be looked at and not to be scanned.
    refuse: bool = True
    sidecars: bool = True  # whether metadata sidecars count as bases
    manifests: bool = True  # whether those with a manifest count, or all as if they had none
    # What a scan will ask a trusted base for, where all that matches in it will be read; None: unknown.
    question: Question | None = None
    sidecar_groups_at_once: int = 5  # how many row groups of a metadata sidecar it will fetch together
    # The log, where it is listed already, cut at the version to read; None to list it.
    segment: LogSegment | None = None
    events: Events = field(default_factory=Events)  # listeners


def list_log(
    opening: Opening,
    listing: LogListing | None = None,
    *,
    excluded: frozenset[str] = frozenset(),
    speculate: bool = True,
    otherwise: Exception | None = None,
) -> Flow[LogSegment]:
    """Lists a log and cuts it at the version to read; nothing of the table is read.

    Args:
        opening: What is to be opened.
        listing: The log, where it is listed already, all of it.
        excluded: Names of bases that proved unusable.
        speculate: Whether to ask for what is most likely read next.
        otherwise: Raised where the version cannot be reached; None for an error that says which commit is missing.
    """
    if listing is None:
        listing = yield from read_listing(opening, excluded, speculate=speculate)
    while True:
        version = listing.latest if opening.version is None else opening.version
        sidecars = listing.sidecar_bases(version) if opening.sidecars else []
        sidecar = sidecars[0].version if sidecars else -1
        if listing.start is None or sidecar >= listing.start:
            break
        if not listing.checkpoints(version):
            start = NO_HINT
        elif sidecar >= 0:
            # A base all the same: the commits after it are asked for as well.
            start = sidecar
        else:
            break
        listing = yield from read_listing(replace(opening, hint=start), excluded, speculate=speculate)
    listing.check_has(version, opening.table)
    # The listing may be stale.
    while missing := listing.missing(version, _PROBED_AT_ONCE, sidecar):
        found: set[str] = set()
        for batch in (yield Consume(ReadFiles(tuple(map(commit_path, missing))))):
            path, size = batch.column("path")[0].as_py(), batch.column("size")[0].as_py()
            found.add(path)
            listing.add(ListedFile(path, size))
        for absent in missing:
            if commit_path(absent) not in found:
                raise otherwise or _absent(opening, version, absent)
    return listing.segment(version)


def read_listing(
    opening: Opening, excluded: frozenset[str] = frozenset(), *, speculate: bool = False
) -> Flow[LogListing]:
    """Lists a log, from the hint on or all of it."""
    hint = yield from last_checkpoint(opening)
    listing = LogListing(start=hint, excluded=excluded, version=opening.version)
    after, ahead = None, NOTHING_AHEAD
    if hint is not None:
        after = listing_start(hint)
        if speculate:
            last = hint + opening.speculation
            last = last if opening.version is None else min(last, opening.version)
            paths = [checksum_path(hint), *map(commit_path, range(hint + 1, last + 1))]
            heads: tuple[str, ...] = ()
            if opening.sidecars and opening.manifests and hint <= HIGHEST_VERSION:
                # A metadata sidecar is mostly written along with a checkpoint.
                paths.insert(0, SIDECAR_FOLDER + manifest_name(hint))
                heads = (commit_path(hint),)
            ahead = Ahead(tuple(map(FileRef, paths)), heads=heads)
    for batch in (yield Consume(ListFiles(LOG_FOLDER, after), ahead)):
        listing.add_page(batch)
    return listing


def last_checkpoint(opening: Opening) -> Flow[int | None]:
    """The version that `_last_checkpoint` names, where a listing may begin there."""
    if opening.hint is not None:
        return None if opening.hint == NO_HINT else opening.hint
    _, hint = yield from read_hint()
    return None if hint is not None and opening.version is not None and hint > opening.version else hint


def read_hint() -> Flow[tuple[bool, int | None]]:
    """Whether `_last_checkpoint` is there, and the version that it names."""
    found: tuple[bool, int | None] = (False, None)
    for batch in (yield Consume(ReadFiles((LAST_CHECKPOINT,), max_bytes=_HINT_BYTES))):
        text = batch.column("data")[0].as_py()
        found = (True, None if text is None else last_checkpoint_version(text))
    return found


def _absent(opening: Opening, version: int, missing: int) -> Exception:
    table = opening.table
    if opening.version is not None:
        msg = (
            f"{table} cannot be read at version {version}: commit {missing} is not there and no checkpoint "
            f"covers it. Its log was cleaned up or damaged; read a version that a checkpoint covers."
        )
        return VersionNotFoundError(msg)
    msg = (
        f"{table} cannot be read: commit {missing} ({commit_path(missing)}) is missing, and no checkpoint after it "
        f"covers it. Restore the file, or read an older version."
    )
    return MissingCommitError(msg, missing)
