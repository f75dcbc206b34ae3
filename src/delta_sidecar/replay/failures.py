"""What a failure to read a file of the log means for the table."""

from __future__ import annotations

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


def raise_commit_failure(table: str, error: Exception) -> None:
    """Names the commit that could not be read, where that is the failure.

    Raises:
        DeltaSidecarError: It is.
    """
    explained = _commit_failure(table, error)
    if explained is not None:
        raise explained from error


def raise_base_failure(table: str, error: Exception) -> None:
    """Names the file of a base that failed after rows of it were used, where that is the failure.

    Raises:
        DeltaSidecarError: It is.
    """
    if isinstance(error, UnreadableFileError):
        raise _base_failure(table, error) from error


def raise_sidecar_failure(table: str, error: Exception) -> None:
    """Names the file of a metadata sidecar that failed after files of it were emitted, and cannot be read again.

    Raises:
        DeltaSidecarError: It is one.
    """
    if not isinstance(error, SidecarError | UnreadableFileError):
        return
    raise_unreachable(table, error)
    advice = "so the scan ends here; build it again, or scan with sidecar_enabled=False"
    if isinstance(error.__cause__, ObjectNotFoundError):
        advice = "and it was removed while it was read: scan again"
    msg = f"{table} cannot be read: {error}. Files of this metadata sidecar were already given out, {advice}."
    raise LogCorruptionError(msg) from error


def raise_unreachable(subject: str, error: Exception) -> None:
    """Says that a file is out of reach, where that is the failure: not that it is absent or cut short.

    Args:
        subject: What cannot be read without it.
        error: The failure.

    Raises:
        StorageError: It is.
    """
    failure = _unreachable(subject, error)
    if failure is not None:
        raise failure from error


def _unreachable(subject: str, error: Exception) -> StorageError | None:
    cause = error.__cause__
    if not isinstance(error, UnreadableFileError) or not isinstance(cause, StorageError):
        return None
    if isinstance(cause, ObjectNotFoundError | ObjectTruncatedError):
        return None
    kind = AuthenticationError if isinstance(cause, AuthenticationError) else StorageError
    return kind(f"{subject} cannot be read: {error.path}: {cause}")


def _commit_failure(table: str, error: Exception) -> Exception | None:
    if not isinstance(error, UnreadableFileError):
        return None
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


def _base_failure(table: str, error: UnreadableFileError) -> Exception:
    unreachable = _unreachable(table, error)
    if unreachable is not None:
        return unreachable
    msg = (
        f"{table} cannot be read: {error.path} is torn: {error.__cause__}. Files of it were already given out, so the "
        f"scan ends here; write a new checkpoint and scan again."
    )
    return CorruptCheckpointError(msg)


def no_base_left(table: str, name: str, error: Exception) -> Exception:
    """Says that the last base proved unusable."""
    msg = (
        f"{table} cannot be read: {name} cannot be used ({error}), and the log before it has been "
        f"cleaned up. Restore the file, or write a new checkpoint with the table's writer."
    )
    return CorruptCheckpointError(msg)
