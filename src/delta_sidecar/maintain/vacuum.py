"""`vacuum_sidecars`: deletes metadata sidecars that no reader needs any more, and what builds left behind.

It lists the log, reads the manifests, asks a reader which metadata sidecars can be used, reads which files checkpoints
refer to, and only then deletes: manifests first and data files after them, so that wherever it is cut off no manifest
names a file that is gone. A reader that meets a missing metadata sidecar takes the next base; its answer is the same.

A file's age is counted up to the newest file of the log, or up to the clock of this machine where that is behind. So
a wrong clock makes files younger, never older, and a build that goes on elsewhere is safe.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import starmap
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import OptionError, TableNotFoundError
from delta_sidecar.events import Events, VacuumEnded
from delta_sidecar.execute import open_executor
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER
from delta_sidecar.maintain.evidence import Evidence, LogInventory, Requests, read_references
from delta_sidecar.plan import ListFiles, run_flow
from delta_sidecar.replay.open import NO_HINT, Opening
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.sidecar.names import SidecarFileKind, segments_name, sidecar_name
from delta_sidecar.store import ObjectMeta, RequestLog, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from delta_sidecar.events import Listener
    from delta_sidecar.maintain.evidence import FolderFile, ReadManifest, References
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

    Files of Delta's own are never touched, V2-checkpoint sidecars whatever their names neither. Another run goes on
    where one was cut off.

    Args:
        table_url: A path or an address.
        keep: So many of the newest metadata sidecars that can be used stay; at least one.
        retention: Nothing younger is deleted. It has to be longer than a build takes.
        dry_run: Only say what would be deleted.
        storage_options: Credentials and settings, as object_store names them.
        store: A store to use instead of the one that the address names.
        credential: For Azure, an object that gives tokens, such as one of azure-identity's.
        listeners: Each is told what happens, as the events of `delta_sidecar.events`.

    Raises:
        TableNotFoundError: There is no Delta table.
        DeltaProtocolError: The table asks its readers for more than this library can do.
        LogCorruptionError: The table cannot be read, so that it cannot be told what it needs.
        OptionError: The address or an option is not valid.
        StorageError: The store is out of reach, or refuses to delete; an `AuthenticationError` where it refused the
            credentials.
    """
    _check(keep, retention)
    store = store if store is not None else open_store(table_url, storage_options, credential=credential)
    run = _Vacuum(store, Events(listeners), keep, retention, dry_run=dry_run)
    return run.run()


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
            with closing(open_executor(self._store)) as executor, closing(Requests()) as requests:
                inventory = self._inventory(executor)
                terms = self._terms(inventory)
                decision = self._decision(inventory, terms, executor, requests)
                if not self._dry_run:
                    decision = self._carried_out(decision, inventory, executor, requests)
                return self._summary(terms, decision, inventory)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._log.cancel()
            self._tell(failure, 1000 * (time.monotonic() - begun))

    def _inventory(self, executor: Executor) -> LogInventory:
        inventory = _listed(executor, LOG_FOLDER)
        if inventory.latest < 0:
            msg = f"{self._store.url} is not a Delta table: there is no commit and no checkpoint in its _delta_log"
            raise TableNotFoundError(msg)
        return inventory

    def _terms(self, inventory: LogInventory) -> Terms:
        as_of = min(inventory.newest_time, (_now() - _EPOCH) // _MILLISECOND)
        return Terms(self._keep, self._retention // _MILLISECOND, as_of)

    def _decision(self, inventory: LogInventory, terms: Terms, executor: Executor, requests: Requests) -> Decision:
        # A table that cannot be read by Delta's own files, or not by this library, may need ours in unknown ways.
        # All of the log is listed, for what proves an old metadata sidecar is as old.
        opening = Opening(self._store.url, speculation=0, sidecars=False, hint=NO_HINT)
        snapshot = run_flow(open_snapshot(opening), executor)
        evidence = Evidence(self._store, requests, executor, snapshot)
        checkpoints = inventory.checkpoints
        return decide(inventory, evidence, lambda names: read_references(executor, checkpoints, names), terms)

    def _carried_out(
        self, decision: Decision, inventory: LogInventory, executor: Executor, requests: Requests
    ) -> Decision:
        """Deletes the files, and gives what was done."""
        for _ in requests.each(self._delete, [file for file, _ in decision.manifests]):
            pass
        if not decision.files:
            return decision
        # A build may take a data file of an earlier one that broke off, and name it now.
        there = _listed(executor, SIDECAR_FOLDER).of_kind(SidecarFileKind.MANIFEST)
        built = {file.version for file in there if inventory.ours.get(file.name) != file}
        files = [(file, reason) for file, reason in decision.files if file.version not in built]
        # All manifests are gone before the first file that one of them named.
        for _ in requests.each(self._delete, [file for file, _ in files]):
            pass
        notes = [f"Version {version} was built meanwhile: its files stay." for version in sorted(built)]
        return replace(decision, files=files, notes=[*decision.notes, *notes])

    def _summary(self, terms: Terms, decision: Decision, inventory: LogInventory) -> VacuumSummary:
        self._unknown = len(decision.unknown) + inventory.more_strangers
        going = [*decision.manifests, *decision.files]
        if self._dry_run:
            self._deleted = [file for file, _ in going]
        return VacuumSummary(
            table=self._store.url,
            dry_run=self._dry_run,
            keep=self._keep,
            retention=self._retention,
            as_of=_moment(terms.as_of),
            deleted=tuple(
                DeletedFile(
                    path=file.path,
                    size=file.size,
                    last_modified=_moment(file.last_modified),
                    age=(terms.as_of - file.last_modified) * _MILLISECOND,
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

    def _delete(self, file: FolderFile) -> None:
        self._store.delete(file.path)
        self._deleted.append(file)

    def _tell(self, failure: BaseException | None, milliseconds: float) -> None:
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


def _listed(executor: Executor, folder: str) -> LogInventory:
    inventory = LogInventory()
    with closing(executor.execute(ListFiles(folder))) as pages:
        for page in pages:
            inventory.add_all(starmap(ObjectMeta, zip(*(column.to_pylist() for column in page), strict=True)))
    return inventory


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


# What a clean-up of metadata sidecars comes to, as values.


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
    """How many files, and how large they are together."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class VacuumSummary:
    """What a clean-up did, or would do.

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
        notes: What kept the clean-up from doing more, in sentences.
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


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a summary holds
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
class Terms:
    """What is asked for.

    Attributes:
        keep: How many usable metadata sidecars stay at least.
        retention: Milliseconds; nothing younger is touched.
        as_of: The time that ages are counted up to, in milliseconds since the epoch.
    """

    keep: int
    retention: int
    as_of: int

    def is_old(self, last_modified: int) -> bool:
        """Whether a file that was written at this time is past the retention."""
        return self.as_of - last_modified >= self.retention


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done.

    Attributes:
        manifests: The manifests that go, with the reason; before anything else does.
        files: The other files that go, with the reason.
        kept: The metadata sidecars that stay, newest first.
        waiting: Files that nobody needs and that are too young.
        referred: How many files of the folder checkpoints refer to.
        unknown: Files that stay since it cannot be said whose they are.
        notes: What kept the clean-up from doing more.
    """

    manifests: list[tuple[FolderFile, str]] = field(default_factory=list)
    files: list[tuple[FolderFile, str]] = field(default_factory=list)
    kept: list[KeptSidecar] = field(default_factory=list)
    waiting: FileTotal = field(default_factory=FileTotal)
    referred: int = 0
    unknown: list[UnknownFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def decide(
    inventory: LogInventory,
    evidence: Evidence,
    references: Callable[[Callable[[str], bool]], References],
    terms: Terms,
) -> Decision:
    """Says what is to be done.

    Args:
        inventory: What there is.
        evidence: What is known of it.
        references: Reads which of the files that it is asked about checkpoints refer to.
        terms: What is asked for.
    """
    found = list(evidence.manifests(inventory.of_kind(SidecarFileKind.MANIFEST)))
    sidecars = _Sidecars(inventory, evidence, terms, {manifest.file.version: manifest for manifest in found})
    sidecars.judge()
    candidates = [*sidecars.going.values(), *sidecars.loose()]
    if not candidates and not inventory.strangers:
        return sidecars.decision(referred=frozenset())
    asked = {*inventory.strangers, *inventory.ours}
    read = references(asked.__contains__)
    if read.unreadable is not None:
        sidecars.hold_data(*read.unreadable)
    return sidecars.decision(read.names)


@dataclass(slots=True)
class _Sidecars:
    """The metadata sidecars of a log while they are judged."""

    inventory: LogInventory
    evidence: Evidence
    terms: Terms
    manifests: dict[int, ReadManifest]
    going: dict[int, ReadManifest] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    kept: dict[int, KeptSidecar] = field(default_factory=dict)
    protected: set[str] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    is_data_held: bool = False
    build_times: dict[tuple[int, str | None], int] = field(init=False)

    def __post_init__(self) -> None:
        """Looks when each build wrote last: one that is still running does so now and then."""
        self.build_times = defaultdict(int)
        for file in self.inventory.ours.values():
            if file.kind is not SidecarFileKind.MANIFEST:
                build = file.version, file.build
                self.build_times[build] = max(self.build_times[build], file.last_modified)

    def judge(self) -> None:
        """Says of every manifest whether it stays or goes, the newest first."""
        usable: list[int] = []
        for version, manifest in self.manifests.items():
            if manifest.files is None:
                self._judge_unread(manifest)
                continue
            if len(usable) < self.terms.keep:
                distrusted = self.evidence.distrust(version)
                if distrusted is None:
                    usable.append(version)
                    self._keep(manifest, "the newest that can be used" if len(usable) == 1 else "can be used")
                    continue
                reason = f"it cannot be used: {distrusted}"
            else:
                reason = f"newer ones can be used: {_versions(usable)}"
            self.reasons[version] = reason
            if all(map(self._is_old, self._files(manifest))):
                self.going[version] = manifest
            else:
                self._keep(manifest, f"younger than the retention; {reason}")
        self._judge_footers(usable)

    def _judge_unread(self, manifest: ReadManifest) -> None:
        version = manifest.file.version
        if manifest.is_foreign or not self._is_old(manifest.file):
            # What it names cannot be told, so that nothing of its version is touched.
            self.held[version] = f"{manifest.file.name} may need it, and cannot be read: {manifest.reason}"
        else:
            self.reasons[version] = f"it cannot be used: {manifest.reason}"
            self.going[version] = manifest

    def _judge_footers(self, usable: list[int]) -> None:
        """Keeps the newest ones that a reader can use by their footers alone."""
        found = 0
        for file in self.inventory.of_kind(SidecarFileKind.DATA):
            version = file.version
            if found + sum(newer > version for newer in usable) >= self.terms.keep:
                return
            if version in self.kept or version in self.held or not self._is_old(file):
                continue
            if self.evidence.distrust(version, by_footer=True) is None:
                found += 1
                self.protected |= {sidecar_name(version), segments_name(version)}
                self.kept[version] = KeptSidecar(version, 1, file.size, "can be used by its footer, without a manifest")

    def hold_data(self, checkpoint: str, why: str) -> None:
        """Keeps every data file, and the manifests that prove whose they are: a checkpoint cannot be read."""
        self.is_data_held = True
        self.notes.append(
            f"Checkpoint {checkpoint} cannot be read, and may refer to any file of _delta_log/_sidecars/: no data file "
            f"is deleted as long as it is there ({why})."
        )
        for version, manifest in list(self.going.items()):
            if any(file.is_data for file in self._files(manifest)):
                del self.going[version]
                self._keep(manifest, "a checkpoint that cannot be read may refer to its files")

    def loose(self) -> list[FolderFile]:
        """The files, manifests aside, that no metadata sidecar needs that stays; too young ones too."""
        return [
            file
            for file in sorted(self.inventory.ours.values(), key=lambda file: (file.version, file.name))
            if file.kind is not SidecarFileKind.MANIFEST
            and file.name not in self.protected
            and file.version not in self.held
        ]

    def decision(self, referred: frozenset[str]) -> Decision:
        """Puts together what is to be done.

        Args:
            referred: The files that checkpoints refer to.
        """
        unknown = [
            UnknownFile(SIDECAR_FOLDER + name, size, "it has no name of a metadata sidecar")
            for name, size in self.inventory.strangers.items()
            if name not in referred
        ]
        unknown += [
            UnknownFile(file.path, file.size, self.held[file.version])
            for file in self.inventory.ours.values()
            if file.version in self.held and file.name not in referred
        ]
        loose = [file for file in self.loose() if file.name not in referred]
        waiting = [file for file in loose if not self._is_old(file)]
        old = [file for file in loose if self._is_old(file) and not (file.is_data and self.is_data_held)]
        files, strange = self._proven(old)
        return Decision(
            manifests=[
                (manifest.file, self.reasons[version])
                for version, manifest in sorted(self.going.items())
                if manifest.file.name not in referred
            ],
            files=files,
            kept=[self.kept[version] for version in sorted(self.kept, reverse=True)],
            waiting=FileTotal(len(waiting), sum(file.size for file in waiting)),
            referred=len(referred),
            unknown=[*unknown, *strange],
            notes=self.notes,
        )

    def _proven(self, files: Iterable[FolderFile]) -> tuple[list[tuple[FolderFile, str]], list[UnknownFile]]:
        """Parts the files that are ours from those that do not prove it."""
        named = {
            (name, size): self.reasons[version]
            for version, manifest in self.going.items()
            for name, size in (manifest.files or {}).items()
        }
        proven = {file.name: named[file.name, file.size] for file in files if (file.name, file.size) in named}
        proven |= {file.name: "left over from a build" for file in files if file.kind is None}
        proven |= {
            file.name: "no manifest names it"
            for file in files
            if file.kind is SidecarFileKind.SEGMENTS and file.name not in proven
        }
        doubtful = [file for file in files if file.name not in proven]
        unknown = []
        for file, reason in zip(doubtful, self.evidence.not_ours(doubtful), strict=True):
            if reason is None:
                proven[file.name] = "no manifest names it"
            else:
                unknown.append(UnknownFile(file.path, file.size, reason))
        return [(file, proven[file.name]) for file in files if file.name in proven], unknown

    def _files(self, manifest: ReadManifest) -> list[FolderFile]:
        """A manifest and the files that it names, as far as they are there."""
        named = (self.inventory.ours.get(name) for name in manifest.files or {})
        return [manifest.file, *(file for file in named if file is not None)]

    def _keep(self, manifest: ReadManifest, reason: str) -> None:
        files = self._files(manifest)
        self.protected |= {file.name for file in files}
        version = manifest.file.version
        self.kept[version] = KeptSidecar(version, len(files), sum(file.size for file in files), reason)

    def _is_old(self, file: FolderFile) -> bool:
        """Whether a file is past the retention, and all others of its build are."""
        is_manifest = file.kind is SidecarFileKind.MANIFEST
        return self.terms.is_old(file.last_modified if is_manifest else self.build_times[file.version, file.build])


def _versions(versions: Iterable[int]) -> str:
    return ", ".join(map(str, versions))
