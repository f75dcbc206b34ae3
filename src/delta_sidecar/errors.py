"""Every error the library raises.

    DeltaSidecarError
      TableNotFoundError              there is no Delta table at this address
      VersionNotFoundError            the version does not exist, or its log has been cleaned up
        RetentionGuardError           the retention guard refuses a version: its data files may be vacuumed
      DeltaProtocolError              the table's own metadata forbids, or fails, a correct read
        UnsupportedProtocolVersionError
        UnsupportedFeatureError       a reader feature this library does not know, by name
        MissingProtocolError          no protocol action in the log
        MissingMetadataError          no metaData action in the log
        InvalidMetadataError          a metaData or protocol action that cannot be understood
        StrictModeError               strict mode met an action other than add, remove and commitInfo
      LogCorruptionError              the log contradicts itself or cannot be decoded
        MissingCommitError            a commit between the base and the newest version is not there
        CorruptCommitError            a commit that cannot be read whole
        CorruptCheckpointError        a checkpoint that cannot be read, with nothing older to fall back to
      SidecarError                    a metadata sidecar, or its manifest, that cannot be trusted
      DeletionVectorError             a deletion vector that cannot be read; no row of its file is returned
      NotEnoughMemoryError            a file takes more memory than there is, or than is allowed; a MemoryError
      UnreadableFileError             a file could not be fetched or decoded; its cause says why
        MissingDataFileError          a data file of the table is not there (also a builtin FileNotFoundError)
      PredicateError                  a predicate with bad syntax, an unknown column or a mistyped value; a ValueError
      PageTokenError                  a page token that is damaged, or belongs to another query or table; a ValueError
        PageTokenExpiredError         what a page token points to is gone: begin at the first page
      ScanClosedError                 a stream that was stopped before its end is taken from
      OptionError                     an unknown option or a bad value for one (also a builtin ValueError)
        OptionTypeError               a value of a type that the option does not take (also a builtin TypeError)
      BuildError                      a distributed build came to no end; nothing of it was published
      IngestError                     a batch was not written; nothing of it is in the table
        BadTimestampsError            rows without a timestamp that has a time bucket, by their number
        SchemaMismatchError           the columns of a batch do not fit the table's
        TableMismatchError            the table's time bucket is defined in another way
        CommitFailedError             others changed the table's definition meanwhile, again and again
      SparkSetupError                 Spark cannot run here: no Java, a package is missing, or a session without Delta
      TemporaryFileError              a temporary file could not be written or read back
      StorageError                    the object store did not do what was asked
        AuthenticationError           the store refused the credentials, or there are none
        ObjectNotFoundError           the object does not exist (also a builtin FileNotFoundError)
        ObjectTruncatedError          the object ends before the bytes that were asked for
        ObjectExistsError             an object to be created is already there (also a builtin FileExistsError)

Messages say what happened, to which table and file, and what to do next. They never hold a secret.

In a process that has imported deltalake, every error is a `deltalake.exceptions.DeltaError` as well, and
`TableNotFoundError`, `DeltaProtocolError`, `SchemaMismatchError` and `CommitFailedError` are those of deltalake too: an
`except` clause that was written for deltalake catches them.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Error(Exception):
    """Python lets a class change its bases only if the first one was made by a `class` statement."""


class DeltaSidecarError(_Error):
    """The base of every error this library raises."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        _derive_from_deltalake()


class TableNotFoundError(DeltaSidecarError):
    """There is no Delta table at this address."""


class VersionNotFoundError(DeltaSidecarError):
    """The version does not exist, or the log that it needs has been cleaned up."""


class RetentionGuardError(VersionNotFoundError):
    """The retention guard refuses a version: its data files may be vacuumed already.

    Attributes:
        version: The version.
    """

    def __init__(self, message: str, version: int = -1) -> None:
        super().__init__(message)
        self.version = version


class DeltaProtocolError(DeltaSidecarError):
    """The table's own protocol or metadata forbids, or fails, a correct read."""


class UnsupportedProtocolVersionError(DeltaProtocolError):
    """The table asks for a reader version this library does not implement."""


class UnsupportedFeatureError(DeltaProtocolError):
    """The table uses reader features that this library does not implement.

    Attributes:
        features: The names of the features, sorted.
    """

    def __init__(self, message: str, features: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.features = features


class MissingProtocolError(DeltaProtocolError):
    """The log holds no protocol action."""


class MissingMetadataError(DeltaProtocolError):
    """The log holds no metaData action."""


class InvalidMetadataError(DeltaProtocolError):
    """A protocol or metaData action, or the schema in it, cannot be understood."""


class StrictModeError(DeltaProtocolError):
    """Strict mode met an action that is none of add, remove and commitInfo.

    Attributes:
        action: The action's name.
        version: The commit that has it.
    """

    def __init__(self, message: str, action: str = "", version: int = -1) -> None:
        super().__init__(message)
        self.action = action
        self.version = version


class LogCorruptionError(DeltaSidecarError):
    """The log contradicts itself or cannot be decoded."""


class MissingCommitError(LogCorruptionError):
    """A commit that the table's state depends on is not there.

    Attributes:
        version: The version of the missing commit.
    """

    def __init__(self, message: str, version: int = -1) -> None:
        super().__init__(message)
        self.version = version


class CorruptCommitError(LogCorruptionError):
    """A commit is there but cannot be read whole.

    Attributes:
        version: The version of the commit.
    """

    def __init__(self, message: str, version: int = -1) -> None:
        super().__init__(message)
        self.version = version


class CorruptCheckpointError(LogCorruptionError):
    """A checkpoint cannot be read, and there is nothing older to fall back to."""


class SidecarError(DeltaSidecarError):
    """A metadata sidecar, or its manifest, cannot be trusted. A scan goes on without it, with an event that says why.

    Attributes:
        code: Why, in one of a few words: `damaged`, `gone`, `other_commit`, `unproven`, `other_version`,
            `missing_file`, `wrong_size`.
    """

    def __init__(self, message: str, code: str = "damaged") -> None:
        super().__init__(message)
        self.code = code


class DeletionVectorError(DeltaSidecarError):
    """A deletion vector cannot be read, or is not what the log says of it. No row of its file is returned."""


class NotEnoughMemoryError(DeltaSidecarError, MemoryError):
    """To decode a file takes more memory than there is, or than is allowed. It may be whole, and may be hostile.

    Attributes:
        path: The file, relative to the table.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class UnreadableFileError(DeltaSidecarError):
    """A file could not be fetched or decoded.

    Attributes:
        path: The file, relative to the table.
        label: The number that its reader knows it by, such as its version.
    """

    def __init__(self, message: str, path: str = "", label: int = -1) -> None:
        super().__init__(message)
        self.path = path
        self.label = label


class MissingDataFileError(UnreadableFileError, FileNotFoundError):
    """A data file that the log names is not there: a vacuum may have deleted it."""


class PredicateError(DeltaSidecarError, ValueError):
    """A predicate has bad syntax, names an unknown column or compares it with a value of the wrong type."""


class PageTokenError(DeltaSidecarError, ValueError):
    """A page token is damaged, or belongs to another query or table."""


class PageTokenExpiredError(PageTokenError):
    """The object that a page token points to is gone, such as a checkpoint."""


class ScanClosedError(DeltaSidecarError):
    """A stream is read on that its scanner's `close` stopped before the end."""

    def __init__(self, message: str = "the scan was stopped before its end: its scanner has been closed") -> None:
        super().__init__(message)


class OptionError(DeltaSidecarError, ValueError):
    """An option or an argument is unknown, or its value is not valid."""


class OptionTypeError(OptionError, TypeError):
    """An option or an argument is of a type that it must not have."""


class BuildError(DeltaSidecarError):
    """A metadata sidecar could not be built. Nothing was published: what was there before is still there."""


class IngestError(DeltaSidecarError):
    """A batch was not written. Nothing of it is in the table: it can be run again."""


class BadTimestampsError(IngestError):
    """Rows of a batch have no timestamp, or one outside the years 1 to 9999.

    Attributes:
        count: How many.
    """

    def __init__(self, message: str, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


class SchemaMismatchError(IngestError):
    """The columns of a batch do not fit those of the table."""


class TableMismatchError(IngestError):
    """The table defines its time bucket in another way than the pipeline, or has none."""


class CommitFailedError(IngestError):
    """Others changed the table's definition while a batch was written, again and again."""


class SparkSetupError(DeltaSidecarError):
    """Spark cannot run here, or not with Delta: no Java is found, a package is missing, or it does not start."""


class TemporaryFileError(DeltaSidecarError):
    """A temporary file, for what does not fit into memory, could not be written or read back."""


class StorageError(DeltaSidecarError):
    """The object store did not do what was asked."""


class AuthenticationError(StorageError):
    """The object store refused the credentials, or there are none."""


class ObjectTruncatedError(StorageError):
    """The object ends before the bytes that were asked for: it was replaced or cut off."""


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """The object does not exist."""


class ObjectExistsError(StorageError, FileExistsError):
    """An object that was to be created is already there."""


def _derive_from_deltalake() -> None:
    """Makes errors those of deltalake too, once that has been imported: before, none of deltalake's can be caught.

    It is done when an error is made, so that nothing imports deltalake for it.
    """
    theirs = sys.modules.get("deltalake.exceptions")
    if theirs is None or not _underived:
        return
    with _deriving:
        for ours, name in tuple(_underived.items()):
            base = getattr(theirs, name, None)
            if base is None:
                # Another thread is importing deltalake right now.
                continue
            # A user's class may derive from both in an order that leaves none: ours then stay what they are.
            with contextlib.suppress(TypeError):
                ours.__bases__ = (*ours.__bases__, cast("type", base))
            del _underived[ours]


_underived: dict[type[DeltaSidecarError], str] = {
    DeltaSidecarError: "DeltaError",
    TableNotFoundError: "TableNotFoundError",
    DeltaProtocolError: "DeltaProtocolError",
    SchemaMismatchError: "SchemaMismatchError",
    CommitFailedError: "CommitFailedError",
}
_deriving = threading.Lock()


def to_install(extra: str) -> str:
    """The command that brings the packages of an extra, for a message."""
    return f"pip install '.[{extra}]' in a clone of delta-sidecar"


@contextlib.contextmanager
def needed(purpose: str, extra: str) -> Iterator[None]:
    """Adds to the ImportError of an extra's package what it is for and how to install it."""
    try:
        yield
    except ImportError as error:
        msg = f"{purpose}: {to_install(extra)}"
        raise ImportError(msg) from error


def described(value: object) -> str:
    """A value of the wrong kind, for a message: numbers and short texts as they are, of others the type.

    A value in the wrong place may be a secret.
    """
    is_short = isinstance(value, str) and len(value) <= _SHORT
    return repr(value) if value is None or is_short or isinstance(value, bool | int | float) else type(value).__name__


_SHORT = 16
