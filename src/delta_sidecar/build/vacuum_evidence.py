"""What is known of files of `_delta_log/_sidecars/` beyond their names: by manifests, footers and a reader's trust."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import ObjectNotFoundError, ObjectTruncatedError, SidecarError, StorageError
from delta_sidecar.execute.footer import read_footer_within
from delta_sidecar.plan import StateMachineIterator, StateMachinePhase, Terminus
from delta_sidecar.replay.bases import Base, TrustContinuation
from delta_sidecar.replay.listed_sidecars import ListedSidecar
from delta_sidecar.replay.sidecar import SidecarBase
from delta_sidecar.sidecar.canonical import LARGEST_DOCUMENT
from delta_sidecar.sidecar.manifest import FOOTER_KEY, decode_manifest
from delta_sidecar.sidecar.schema import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from delta_sidecar.build.vacuum_inventory import FolderFile
    from delta_sidecar.build.vacuum_requests import Requests
    from delta_sidecar.plan import Executor
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.store import Store


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """What a manifest says, as far as it can be read.

    Attributes:
        file: The manifest.
        files: Sizes of the files that it names, by name; None where it cannot be read.
        reason: Why it cannot be read; empty where it can.
        is_foreign: Whether one that cannot be read may be of use to others, such as a newer version of this library.
    """

    file: FolderFile
    files: Mapping[str, int] | None
    reason: str = ""
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Asks the store.

    Attributes:
        store: The table's store.
        requests: Threads that wait for it.
        executor: Runs what a reader does.
        snapshot: The table as it is now.
    """

    store: Store
    requests: Requests
    executor: Executor
    snapshot: Snapshot

    def manifests(self, files: Iterable[FolderFile]) -> Iterator[ReadManifest]:
        """Reads manifests, in order; those that are gone are left out."""
        return (found for found in self.requests.each(self._manifest, files) if found is not None)

    def not_ours(self, files: Iterable[FolderFile]) -> Iterator[str | None]:
        """Why each of these data files does not prove to be ours by its footer; None where it does."""
        return self.requests.each(self._not_ours, files)

    def distrust(self, version: int, *, by_footer: bool = False) -> str | None:
        """Why a reader of the table does not trust the metadata sidecar of a version; None where it does.

        Args:
            version: The version.
            by_footer: Whether the one file is judged by its footer, as if there were no manifest.
        """
        if version > self.snapshot.version:
            return f"the table has no version {version}"
        segment = self.snapshot.choice.segment
        base = SidecarBase.of(ListedSidecar(version, 2 if by_footer else 1), segment)
        if base.name not in segment.sidecars:
            return "it is gone"
        chain = base.trust(_Verdict(), with_table=False)
        return StateMachineIterator(chain, self.executor).run_to_terminal()

    def _manifest(self, file: FolderFile) -> ReadManifest | None:
        if file.size > LARGEST_DOCUMENT:
            return ReadManifest(file, None, f"it has {file.size} bytes, more than a manifest may have", is_foreign=True)
        try:
            data = bytes(self.store.get(file.path, max_bytes=LARGEST_DOCUMENT).data)
        except ObjectNotFoundError:
            return None
        try:
            manifest = decode_manifest(data)
        except SidecarError as error:
            return ReadManifest(file, None, str(error), is_foreign=_is_of_a_newer_format(data))
        if manifest.version != file.version:
            return ReadManifest(file, None, f"it is for version {manifest.version}", is_foreign=True)
        named = [*manifest.files, *([manifest.segments_file] if manifest.segments_file is not None else [])]
        return ReadManifest(file, {found.name: found.size for found in named})

    def _not_ours(self, file: FolderFile) -> str | None:
        try:
            footer = read_footer_within(self.store, file.path, file.size, None)
        except (ObjectNotFoundError, ObjectTruncatedError):
            return "it changed or went meanwhile"
        except (MemoryError, StorageError):
            raise
        except (pa.ArrowException, OSError, ValueError):
            return "it cannot be read as a Parquet file"
        pairs = footer.metadata.metadata if footer is not None else None
        return None if FOOTER_KEY.encode() in (pairs or {}) else "its footer does not say that it is a metadata sidecar"


@dataclass(frozen=True, slots=True)
class _Verdict(TrustContinuation[str | None]):
    """Ends with the reason not to trust a base."""

    def trusted(self, base: Base) -> StateMachinePhase[str | None]:
        del base
        return Terminus(None)

    def distrusted(self, base: Base, error: Exception) -> StateMachinePhase[str | None]:
        del base
        return Terminus(str(error))


def _is_of_a_newer_format(data: bytes) -> bool:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    found = document.get("format_version") if isinstance(document, dict) else None
    return isinstance(found, int) and not isinstance(found, bool) and found > FORMAT_VERSION
