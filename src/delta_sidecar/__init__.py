"""delta-sidecar: the file list of a Delta table as a stream, lazily and in bounded memory."""

from delta_sidecar.errors import (
    AuthenticationError,
    CorruptCheckpointError,
    CorruptCommitError,
    DeltaProtocolError,
    DeltaSidecarError,
    InvalidMetadataError,
    LogCorruptionError,
    MissingCommitError,
    MissingMetadataError,
    MissingProtocolError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    OptionError,
    PredicateError,
    ScanClosedError,
    StorageError,
    TableNotFoundError,
    UnreadableFileError,
    UnsupportedFeatureError,
    UnsupportedProtocolVersionError,
    VersionNotFoundError,
)
from delta_sidecar.log.deletion_vectors import DeletionVector
from delta_sidecar.replay.snapshot import Snapshot
from delta_sidecar.scan.config import LazyScanConfig, ScanStrategy
from delta_sidecar.scan.files import DeltaFile
from delta_sidecar.scan.scanner import LazyDeltaScanner, ScanMetrics

__all__ = [
    "AuthenticationError",
    "CorruptCheckpointError",
    "CorruptCommitError",
    "DeletionVector",
    "DeltaFile",
    "DeltaProtocolError",
    "DeltaSidecarError",
    "InvalidMetadataError",
    "LazyDeltaScanner",
    "LazyScanConfig",
    "LogCorruptionError",
    "MissingCommitError",
    "MissingMetadataError",
    "MissingProtocolError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "ObjectTruncatedError",
    "OptionError",
    "PredicateError",
    "ScanClosedError",
    "ScanMetrics",
    "ScanStrategy",
    "Snapshot",
    "StorageError",
    "TableNotFoundError",
    "UnreadableFileError",
    "UnsupportedFeatureError",
    "UnsupportedProtocolVersionError",
    "VersionNotFoundError",
]
