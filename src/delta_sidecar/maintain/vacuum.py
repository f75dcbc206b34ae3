"""`vacuum_sidecars`: deletes metadata sidecars that no reader needs any more, and what builds left behind.

It lists the log, reads the manifests, asks a reader which metadata sidecars can be used, reads which files checkpoints
refer to, and only then deletes: manifests first and data files after them, so that wherever it is cut off no manifest
names a file that is gone. A reader that meets a missing metadata sidecar takes the next base; its answer is the same.

A file's age is counted up to the newest file of the log, or up to the clock of this machine where that is behind. So
a wrong clock makes files younger, never older, and a build that goes on elsewhere is safe.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from delta_sidecar.errors import OptionError
from delta_sidecar.events import Events, VacuumEnded
from delta_sidecar.execute import open_executor
from delta_sidecar.log.names import SIDECAR_FOLDER, SidecarFileKind
from delta_sidecar.log.segment import LogListing
from delta_sidecar.maintain.evidence import Evidence, References, of_kind, our_files, read_references
from delta_sidecar.plan import ListFiles, run_flow
from delta_sidecar.replay.open import NO_HINT, Opening, list_log, read_listing
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.store import RequestLog, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from delta_sidecar.events import Listener
    from delta_sidecar.maintain.evidence import FolderFile, ReadManifest
    from delta_sidecar.plan import Executor
    from delta_sidecar.store import Store, TokenCredential


DEFAULT_KEEP = 2
DEFAULT_RETENTION = timedelta(days=7)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def vacuum_sidecars(
    table_url: str | os.PathLike[str],
    *,
    keep: int = DEFAULT_KEEP,
    retention: timedelta = DEFAULT_RETENTION,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    credential: TokenCredential | None = None,
    listeners: Iterable[Listener] = (),
) -> VacuumSummary:
    """Deletes metadata sidecars that no reader needs any more, and what builds left behind.

    Files of Delta's own are never touched, nor are V2-checkpoint sidecars of any name. Another run goes on
    where one was cut off.

    Args:
        table_url: A path or an address.
        keep: So many of the newest metadata sidecars that can be used stay; at least one.
        retention: Nothing younger is deleted. It has to be longer than a build takes.
        dry_run: Only say what would be deleted.
        storage_options: Credentials and settings, as object_store names them.
        store: A store to use instead of the one that the address names.
        credential: For Azure, an object that gives tokens, such as one of azure-identity's.
        listeners: Each gets the events of `delta_sidecar.events`.

    Raises:
        TableNotFoundError: There is no Delta table.
        DeltaProtocolError: The table asks its readers for more than this library can do.
        LogCorruptionError: The table cannot be read, so that it is not known what it needs.
        OptionError: The address or an option is not valid.
        StorageError: The store is out of reach, or refuses to delete; an `AuthenticationError` where it refused the
            credentials.
    """
    _check(keep, retention)
    store = store if store is not None else open_store(table_url, storage_options, credential=credential)
    return _Vacuum(store, Events(tuple(listeners)), keep, retention, dry_run=dry_run).run()


class _Vacuum:
    """One clean-up under way."""

    def __init__(self, store: Store, events: Events, keep: int, retention: timedelta, *, dry_run: bool) -> None:
        self._log = RequestLog()
        self._store = store.bind(self._log)
        self._events = events
        self._keep = keep
        self._retention = retention
        self._dry_run = dry_run
        self._deleted: list[FolderFile] = []
        self._unknown = 0

    def run(self) -> VacuumSummary:
        begun = time.monotonic()
        failure: BaseException | None = None
        try:
            with closing(open_executor(self._store)) as executor:
                return self._run(executor)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._log.cancel()
            self._emit_end(failure, 1000 * (time.monotonic() - begun))

    def _run(self, executor: Executor) -> VacuumSummary:
        # All of the log is listed, for what proves an old metadata sidecar is as old.
        opening = Opening(self._store.url, speculation=0, sidecars=False, hint=NO_HINT)
        listing = run_flow(read_listing(opening), executor)
        segment = run_flow(list_log(opening, listing), executor)
        # A table that cannot be read by Delta's own files, or not by this library, may need ours in unknown ways.
        run_flow(open_snapshot(replace(opening, segment=segment)), executor)
        evidence = Evidence(self._store, executor, segment)
        as_of = min(listing.newest_time, (_now() - _EPOCH) // _MILLISECOND)
        rules = _Rules(listing, evidence, self._keep, as_of - self._retention // _MILLISECOND)
        decision = rules.decide()
        if not self._dry_run:
            decision = self._carry_out(decision, rules.ours, evidence)
        return self._summary(decision, as_of)

    def _carry_out(self, decision: _Verdict, ours: Mapping[str, FolderFile], evidence: Evidence) -> _Verdict:
        """Deletes the files, and returns what was done."""
        self._delete(decision.manifests, evidence)
        if not decision.files:
            return decision
        # A build may take a data file of an earlier one that broke off, and name it now.
        there = LogListing(start=0)
        with closing(evidence.executor.execute(ListFiles(SIDECAR_FOLDER))) as pages:
            for page in pages:
                there.add_page(page)
        manifests = of_kind(our_files(there.sidecars), SidecarFileKind.MANIFEST)
        built = {file.version for file in manifests if ours.get(file.name) != file}
        files = [(file, reason) for file, reason in decision.files if file.version not in built]
        # All manifests are gone before the first file that one of them named.
        self._delete(files, evidence)
        notes = [f"Version {version} was built meanwhile: its files stay." for version in sorted(built)]
        return dataclasses.replace(decision, files=files, notes=[*decision.notes, *notes])

    def _summary(self, decision: _Verdict, as_of: int) -> VacuumSummary:
        self._unknown = len(decision.unknown)
        going = [*decision.manifests, *decision.files]
        if self._dry_run:
            self._deleted = [file for file, _ in going]
        return VacuumSummary(
            table=self._store.url,
            dry_run=self._dry_run,
            keep=self._keep,
            retention=self._retention,
            as_of=_moment(as_of),
            deleted=tuple(
                DeletedFile(
                    path=file.path,
                    size=file.size,
                    last_modified=_moment(file.last_modified),
                    age=(as_of - file.last_modified) * _MILLISECOND,
                    reason=reason,
                )
                for file, reason in going
            ),
            kept=tuple(decision.kept),
            waiting=decision.waiting,
            referred=decision.referred,
            unknown=tuple(decision.unknown[:MOST_UNKNOWN]),
            unknown_count=self._unknown,
            notes=tuple(decision.notes),
            requests=self._log.snapshot().requests,
        )

    def _delete(self, files: Iterable[tuple[FolderFile, str]], evidence: Evidence) -> None:
        def delete(file: FolderFile) -> None:
            self._store.delete(file.path)
            self._deleted.append(file)

        for _ in evidence.each(delete, (file for file, _ in files)):
            pass

    def _emit_end(self, failure: BaseException | None, milliseconds: float) -> None:
        counts = self._log.snapshot()
        is_error = isinstance(failure, Exception)
        self._events(
            VacuumEnded(
                table=self._store.url,
                outcome="complete" if failure is None else "failed" if is_error else "stopped",
                error=type(failure).__name__ if is_error else None,
                milliseconds=milliseconds,
                dry_run=self._dry_run,
                files_deleted=len(self._deleted),
                bytes_deleted=sum(file.size for file in self._deleted),
                files_unknown=self._unknown,
                requests=counts.requests,
                bytes=counts.bytes,
                trips=counts.trips,
            )
        )


def _check(keep: object, retention: object) -> None:
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        msg = f"keep must be a whole number from 1 on, not {keep!r}"
        raise OptionError(msg)
    if not isinstance(retention, timedelta) or retention < timedelta():
        msg = f"retention must be a span of time, zero or more, not {retention!r}"
        raise OptionError(msg)


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


# The summary of a clean-up.


MOST_UNKNOWN = 1_000
"""Unknown files that a summary names."""


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that is deleted, or would be.

    Attributes:
        path: Relative to the table.
        size: In bytes.
        last_modified: When it was written, by the store.
        age: How old it was.
        reason: Why nobody needs it.
    """

    path: str
    size: int
    last_modified: datetime
    age: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class KeptSidecar:
    """A metadata sidecar that stays.

    Attributes:
        version: The version of the table that it describes.
        files: How many files it has.
        bytes: Their size.
        reason: Why it stays.
    """

    version: int
    files: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownFile:
    """A file that stays since it cannot be said whose it is.

    Attributes:
        path: Relative to the table.
        size: In bytes.
        reason: What is not known of it.
    """

    path: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class FileTotal:
    """A number of files, and their total size."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class VacuumSummary:
    """The outcome of a clean-up, or of a dry run.

    Attributes:
        table: The table's address, without secrets.
        dry_run: Whether nothing was deleted.
        keep: How many usable metadata sidecars stay at least.
        retention: Nothing younger was touched.
        as_of: The time that ages are counted up to.
        deleted: The files, in the order of their deletion.
        kept: The metadata sidecars that stay, newest first.
        waiting: Files that nobody needs and that are too young.
        referred: Files of the folder that checkpoints refer to; 0 where that did not need to be known.
        unknown: The first of the files that stay since it cannot be said whose they are.
        unknown_count: How many of those there are.
        notes: Reasons why the clean-up did no more, in sentences.
        requests: Requests to the store.
    """

    table: str
    dry_run: bool
    keep: int
    retention: timedelta
    as_of: datetime
    deleted: tuple[DeletedFile, ...]
    kept: tuple[KeptSidecar, ...]
    waiting: FileTotal
    referred: int
    unknown: tuple[UnknownFile, ...]
    unknown_count: int
    notes: tuple[str, ...]
    requests: int = 0

    @property
    def deleted_bytes(self) -> int:
        """The size of the deleted files together."""
        return sum(file.size for file in self.deleted)

    def as_dict(self) -> dict[str, Any]:
        """The summary in values that JSON has: times in ISO 8601, spans in seconds."""
        plain: dict[str, Any] = _plain(self)
        return {**plain, "deleted_bytes": self.deleted_bytes}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field of a summary
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.total_seconds() if isinstance(value, timedelta) else value


# The rules of a clean-up: what stays, what goes, and why.
#
# A metadata sidecar goes where enough newer ones can be used, or where no reader trusts it; with it go the files that
# it names. Files that no manifest names go too. All of that only past the retention, never a file that a checkpoint
# refers to, and never a data file that does not prove to be ours.


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The files that go, those that stay, and why."""

    manifests: list[tuple[FolderFile, str]]  # they go before anything else does
    files: list[tuple[FolderFile, str]]
    kept: list[KeptSidecar]  # newest first
    waiting: FileTotal
    referred: int
    unknown: list[UnknownFile]
    notes: list[str]


class _Rules:
    """The metadata sidecars of a log while they are judged. Files that were written after a time are too young."""

    def __init__(self, listing: LogListing, evidence: Evidence, keep: int, newest: int) -> None:
        self.ours = our_files(listing.sidecars)
        self._strangers = [file for name, file in listing.sidecars.items() if name not in self.ours]
        self._checkpoints = listing.checkpoint_files.values()
        self._evidence = evidence
        self._keep_at_least = keep
        self._newest = newest
        self._going: dict[int, tuple[ReadManifest, str]] = {}
        self._kept: dict[int, KeptSidecar] = {}
        self._protected: set[str] = set()
        self._held: dict[int, str] = {}
        # When each build wrote last: one that is still running does so now and then.
        self._build_times: dict[tuple[int, str | None], int] = defaultdict(int)
        for file in self.ours.values():
            if file.kind is not SidecarFileKind.MANIFEST:
                build = file.version, file.build
                self._build_times[build] = max(self._build_times[build], file.last_modified)

    def decide(self) -> _Verdict:
        self._judge_footers(self._judge_manifests())
        if not self._going and not self._loose() and not self._strangers:
            return self._decision(References())
        names = (file.path.removeprefix(SIDECAR_FOLDER) for file in self._strangers)
        references = read_references(self._evidence.executor, self._checkpoints, {*names, *self.ours})
        if references.unreadable is not None:
            # It may refer to any data file: the manifests that prove whose those are stay as well.
            for version, (manifest, _) in list(self._going.items()):
                if any(file.is_data for file in self._files(manifest)):
                    del self._going[version]
                    self._keep(manifest, "a checkpoint that cannot be read may refer to its files")
        return self._decision(references)

    def _judge_manifests(self) -> list[int]:
        """Decides of every manifest whether it stays or goes, the newest first. Returns the versions to use."""
        usable: list[int] = []
        read = list(self._evidence.each(self._evidence.manifest, of_kind(self.ours, SidecarFileKind.MANIFEST)))
        for manifest in filter(None, read):
            version = manifest.file.version
            if manifest.files is None:
                if manifest.is_foreign or not self._is_old(manifest.file):
                    # It may name any file of its version.
                    self._held[version] = f"{manifest.file.name} may need it, and cannot be read: {manifest.reason}"
                else:
                    self._going[version] = manifest, f"it cannot be used: {manifest.reason}"
                continue
            if len(usable) < self._keep_at_least:
                distrusted = self._evidence.distrust(version)
                if distrusted is None:
                    usable.append(version)
                    self._keep(manifest, "the newest that can be used" if len(usable) == 1 else "can be used")
                    continue
                reason = f"it cannot be used: {distrusted}"
            else:
                reason = f"newer ones can be used: {', '.join(map(str, usable))}"
            if all(map(self._is_old, self._files(manifest))):
                self._going[version] = manifest, reason
            else:
                self._keep(manifest, f"younger than the retention; {reason}")
        return usable

    def _judge_footers(self, usable: list[int]) -> None:
        """Keeps the newest ones that a reader can use by their footers alone."""
        found = 0
        for file in of_kind(self.ours, SidecarFileKind.DATA):
            version = file.version
            if found + sum(newer > version for newer in usable) >= self._keep_at_least:
                return
            if version in self._kept or version in self._held or not self._is_old(file):
                continue
            if self._evidence.distrust(version, by_footer=True) is None:
                found += 1
                # Its footer may name segments of any build.
                segments = of_kind(self.ours, SidecarFileKind.SEGMENTS)
                self._protected |= {file.name, *(each.name for each in segments if each.version == version)}
                reason = "can be used by its footer, without a manifest"
                self._kept[version] = KeptSidecar(version, 1, file.size, reason)

    def _loose(self) -> list[FolderFile]:
        """The files, manifests aside, that no metadata sidecar needs that stays; too young ones too."""
        return [
            file
            for file in sorted(self.ours.values(), key=lambda file: (file.version, file.name))
            if file.kind is not SidecarFileKind.MANIFEST
            and file.name not in self._protected
            and file.version not in self._held
        ]

    def _decision(self, references: References) -> _Verdict:
        referred = references.names
        notes: list[str] = []
        unknown = [
            UnknownFile(file.path, file.size, "it has no name of a metadata sidecar")
            for file in self._strangers
            if file.path.removeprefix(SIDECAR_FOLDER) not in referred
        ]
        unknown += [
            UnknownFile(file.path, file.size, self._held[file.version])
            for file in self.ours.values()
            if file.version in self._held and file.name not in referred
        ]
        loose = [file for file in self._loose() if file.name not in referred]
        waiting = [file for file in loose if not self._is_old(file)]
        old = [file for file in loose if self._is_old(file)]
        if references.unreadable is not None:
            checkpoint, why = references.unreadable
            old = [file for file in old if not file.is_data]
            notes.append(
                f"Checkpoint {checkpoint} cannot be read, and may refer to any file of _delta_log/_sidecars/: no data "
                f"file is deleted as long as it is there ({why})."
            )
        files, strange = self._proven(old)
        return _Verdict(
            manifests=[
                (manifest.file, reason)
                for _, (manifest, reason) in sorted(self._going.items())
                if manifest.file.name not in referred
            ],
            files=files,
            kept=[self._kept[version] for version in sorted(self._kept, reverse=True)],
            waiting=FileTotal(len(waiting), sum(file.size for file in waiting)),
            referred=len(referred),
            unknown=[*unknown, *strange],
            notes=notes,
        )

    def _proven(self, files: list[FolderFile]) -> tuple[list[tuple[FolderFile, str]], list[UnknownFile]]:
        """The files that are ours, with the reason to delete them, and those that do not prove it."""
        named = {
            (name, size): reason
            for manifest, reason in self._going.values()
            for name, size in (manifest.files or {}).items()
        }
        proven, doubtful = {}, []
        for file in files:
            if file.kind is None:
                proven[file.name] = "left over from a build"
            elif (file.name, file.size) in named:
                proven[file.name] = named[file.name, file.size]
            elif file.kind is SidecarFileKind.SEGMENTS:
                proven[file.name] = "no manifest names it"
            else:
                doubtful.append(file)
        unknown = []
        for file, reason in zip(doubtful, self._evidence.each(self._evidence.not_ours, doubtful), strict=True):
            if reason is None:
                proven[file.name] = "no manifest names it"
            else:
                unknown.append(UnknownFile(file.path, file.size, reason))
        return [(file, proven[file.name]) for file in files if file.name in proven], unknown

    def _files(self, manifest: ReadManifest) -> list[FolderFile]:
        """A manifest and the files that it names, as far as they are there."""
        named = (self.ours.get(name) for name in manifest.files or {})
        return [manifest.file, *(file for file in named if file is not None)]

    def _keep(self, manifest: ReadManifest, reason: str) -> None:
        files = self._files(manifest)
        self._protected |= {file.name for file in files}
        version = manifest.file.version
        self._kept[version] = KeptSidecar(version, len(files), sum(file.size for file in files), reason)

    def _is_old(self, file: FolderFile) -> bool:
        """Whether a file is past the retention, and all others of its build are."""
        is_manifest = file.kind is SidecarFileKind.MANIFEST
        written = file.last_modified if is_manifest else self._build_times[file.version, file.build]
        return written <= self._newest
