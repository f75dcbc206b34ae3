"""The rules of a clean-up: what stays, what goes, and why.

A metadata sidecar goes where enough newer ones can be used, or where no reader trusts it; with it go the files that it
names. Files that no manifest names go too. All of that only past the retention, never a file that a checkpoint refers
to, and never a data file that does not prove to be ours.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta_sidecar.build.vacuum_summary import FileTotal, KeptSidecar, UnknownFile
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.sidecar.names import SidecarFileKind, segments_name, sidecar_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from delta_sidecar.build.vacuum_evidence import Evidence, ReadManifest
    from delta_sidecar.build.vacuum_inventory import FolderFile, LogInventory
    from delta_sidecar.build.vacuum_references import References


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
