"""delta-sidecar: the file list of a Delta table as a stream, and metadata sidecars that make it quick."""

from typing import TYPE_CHECKING

from delta_sidecar.errors import (
    AuthenticationError,
    BadTimestampsError,
    BuildError,
    CommitFailedError,
    CorruptCheckpointError,
    CorruptCommitError,
    DeletionVectorError,
    DeltaProtocolError,
    DeltaSidecarError,
    IngestError,
    InvalidMetadataError,
    LogCorruptionError,
    MissingCommitError,
    MissingDataFileError,
    MissingMetadataError,
    MissingProtocolError,
    NotEnoughMemoryError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    OptionError,
    OptionTypeError,
    PageTokenError,
    PageTokenExpiredError,
    PredicateError,
    RetentionGuardError,
    ScanClosedError,
    SchemaMismatchError,
    SidecarError,
    SparkSetupError,
    StorageError,
    StrictModeError,
    TableMismatchError,
    TableNotFoundError,
    TemporaryFileError,
    UnreadableFileError,
    UnsupportedFeatureError,
    UnsupportedProtocolVersionError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from delta_sidecar.build.build import build_sidecar
    from delta_sidecar.build.builder import BuildSummary
    from delta_sidecar.log.deletion_vectors import DeletionVector
    from delta_sidecar.maintain.vacuum import VacuumSummary, vacuum_sidecars
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.rows.query import RowQuery
    from delta_sidecar.rows.scan import RowMetrics, RowStream
    from delta_sidecar.scan.config import LazyScanConfig, ScanStrategy
    from delta_sidecar.scan.estimate import ScanEstimate
    from delta_sidecar.scan.explain import Explanation
    from delta_sidecar.scan.files import DeltaFile, ScanMetrics
    from delta_sidecar.scan.retention import RetentionCheck
    from delta_sidecar.scan.scanner import LazyDeltaScanner
    from delta_sidecar.table.delta_table import DeltaTable
    from delta_sidecar.table.statistics import FileStats
    from delta_sidecar.table.writing import write_deltalake
else:
    # These bring pyarrow along, so they are imported when they are first asked for: `--help` has no use for it.
    _ON_DEMAND = {
        "BuildSummary": "delta_sidecar.build.builder",
        "DeletionVector": "delta_sidecar.log.deletion_vectors",
        "DeltaFile": "delta_sidecar.scan.files",
        "DeltaTable": "delta_sidecar.table.delta_table",
        "Explanation": "delta_sidecar.scan.explain",
        "FileStats": "delta_sidecar.table.statistics",
        "LazyDeltaScanner": "delta_sidecar.scan.scanner",
        "LazyScanConfig": "delta_sidecar.scan.config",
        "RetentionCheck": "delta_sidecar.scan.retention",
        "RowMetrics": "delta_sidecar.rows.scan",
        "RowQuery": "delta_sidecar.rows.query",
        "RowStream": "delta_sidecar.rows.scan",
        "ScanEstimate": "delta_sidecar.scan.estimate",
        "ScanMetrics": "delta_sidecar.scan.files",
        "ScanStrategy": "delta_sidecar.scan.config",
        "Snapshot": "delta_sidecar.replay.snapshot",
        "VacuumSummary": "delta_sidecar.maintain.vacuum",
        "build_sidecar": "delta_sidecar.build.build",
        "vacuum_sidecars": "delta_sidecar.maintain.vacuum",
        "write_deltalake": "delta_sidecar.table.writing",
    }

    def __getattr__(name: str) -> object:
        if name not in _ON_DEMAND:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name)
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_ON_DEMAND[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AuthenticationError",
    "BadTimestampsError",
    "BuildError",
    "BuildSummary",
    "CommitFailedError",
    "CorruptCheckpointError",
    "CorruptCommitError",
    "DeletionVector",
    "DeletionVectorError",
    "DeltaFile",
    "DeltaProtocolError",
    "DeltaSidecarError",
    "DeltaTable",
    "Explanation",
    "FileStats",
    "IngestError",
    "InvalidMetadataError",
    "LazyDeltaScanner",
    "LazyScanConfig",
    "LogCorruptionError",
    "MissingCommitError",
    "MissingDataFileError",
    "MissingMetadataError",
    "MissingProtocolError",
    "NotEnoughMemoryError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "ObjectTruncatedError",
    "OptionError",
    "OptionTypeError",
    "PageTokenError",
    "PageTokenExpiredError",
    "PredicateError",
    "RetentionCheck",
    "RetentionGuardError",
    "RowMetrics",
    "RowQuery",
    "RowStream",
    "ScanClosedError",
    "ScanEstimate",
    "ScanMetrics",
    "ScanStrategy",
    "SchemaMismatchError",
    "SidecarError",
    "Snapshot",
    "SparkSetupError",
    "StorageError",
    "StrictModeError",
    "TableMismatchError",
    "TableNotFoundError",
    "TemporaryFileError",
    "UnreadableFileError",
    "UnsupportedFeatureError",
    "UnsupportedProtocolVersionError",
    "VacuumSummary",
    "VersionNotFoundError",
    "build_sidecar",
    "vacuum_sidecars",
    "write_deltalake",
]
