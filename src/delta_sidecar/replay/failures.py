"""What a failure to read a file of the log means for the table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.errors import (
    AuthenticationError,
    CorruptCheckpointError,
    CorruptCommitError,
    LogCorruptionError,
    MissingCommitError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    SidecarError,
    StorageError,
    UnreadableFileError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def naming_commits(table: str) -> Iterator[None]:
    """Where a commit cannot be read, has the error say which, and what it means for the table."""
    try:
        yield
    except UnreadableFileError as error:
        explained = _commit_failure(table, error)
        if explained is not None:
            raise explained from error
        raise


@contextmanager
def naming_base_files(table: str) -> Iterator[None]:
    """Where a file of a base fails after rows of it may have been used, has the error say so."""
    try:
        yield
    except UnreadableFileError as error:
        raise_unreachable(table, error)
        msg = (
            f"{table} cannot be read: {error.path} is torn: {error.__cause__}. Files of it were already given out, so "
            f"the scan ends here; write a new checkpoint and scan again."
        )
        raise CorruptCheckpointError(msg) from error


@contextmanager
def naming_sidecars(table: str) -> Iterator[None]:
    """Where a metadata sidecar cannot be read again after files of it were emitted, has the error say so."""
    try:
        yield
    except (SidecarError, UnreadableFileError) as error:
        raise_unreachable(table, error)
        advice = "so the scan ends here; build it again, or scan with sidecar_enabled=False"
        if isinstance(error.__cause__, ObjectNotFoundError):
            advice = "and it was removed while it was read: scan again"
        msg = f"{table} cannot be read: {error}. Files of this metadata sidecar were already given out, {advice}."
        raise LogCorruptionError(msg) from error


def raise_unreachable(subject: str, error: Exception) -> None:
    """Says that a file is out of reach, where that is the failure: not that it is absent or cut short.

    Raises:
        StorageError: It is; the message names the subject that cannot be read without it.
    """
    cause = error.__cause__
    if not isinstance(error, UnreadableFileError) or not isinstance(cause, StorageError):
        return
    if not isinstance(cause, ObjectNotFoundError | ObjectTruncatedError):
        kind = AuthenticationError if isinstance(cause, AuthenticationError) else StorageError
        msg = f"{subject} cannot be read: {error.path}: {cause}"
        raise kind(msg) from error


def _commit_failure(table: str, error: UnreadableFileError) -> Exception | None:
    cause, version = error.__cause__, error.label
    if isinstance(cause, ObjectNotFoundError):
        msg = f"{table} cannot be read: commit {version} ({error.path}) was listed and is gone. Try again."
        return MissingCommitError(msg, version)
    if isinstance(cause, AuthenticationError):
        return AuthenticationError(f"{table} cannot be read: commit {version}: {cause}")
    if isinstance(cause, pa.ArrowException | ObjectTruncatedError):
        msg = (
            f"{table} cannot be read: commit {version} ({error.path}) is torn or not in Delta's format: {cause}. "
            f"Restore the file, or read a version before it."
        )
        return CorruptCommitError(msg, version)
    if isinstance(cause, StorageError):
        return StorageError(f"{table} cannot be read: commit {version} ({error.path}): {cause}")
    return None


def no_base_left(table: str, name: str, error: Exception) -> Exception:
    """Says that the last base proved unusable."""
    msg = (
        f"{table} cannot be read: {name} cannot be used ({error}), and the log before it has been "
        f"cleaned up. Restore the file, or write a new checkpoint with the table's writer."
    )
    return CorruptCheckpointError(msg)
