"""Plans say what is to be read; phases decide, plan after plan; an executor does the reading.

    SELECT keep(batch) FROM parquet('a', 'b')      Filter(ScanParquet((a, b), columns), keep)

A phase gives a plan. The machine hands it to an executor and either feeds the output to the phase (`ConsumePhase`)
or lets it through to the user (`PartialResultPhase`); then it asks for the next phase, until a `Terminus`.
Nothing here knows of Delta, and nothing here does I/O.
"""

from delta_sidecar.plan.flow import (
    Batches,
    Consume,
    ConsumePhase,
    Executor,
    PartialResult,
    PartialResultPhase,
    StateMachineIterator,
    StateMachinePhase,
    Terminus,
)
from delta_sidecar.plan.nodes import (
    FILE_LABEL,
    HEAD_BYTES,
    LINE,
    TAIL_BYTES,
    WHOLE_PIECE_BYTES,
    Chunk,
    FileRef,
    FileSummary,
    Filter,
    FilterOrdered,
    FooterTest,
    ListFiles,
    Piece,
    PieceDirectory,
    PieceGroup,
    Place,
    Plan,
    ReadFiles,
    ReadFooters,
    ReadKeyValue,
    ReadRanges,
    ScanJson,
    ScanParquet,
    ScanPieces,
    Substitute,
)

__all__ = [
    "FILE_LABEL",
    "HEAD_BYTES",
    "LINE",
    "TAIL_BYTES",
    "WHOLE_PIECE_BYTES",
    "Batches",
    "Chunk",
    "Consume",
    "ConsumePhase",
    "Executor",
    "FileRef",
    "FileSummary",
    "Filter",
    "FilterOrdered",
    "FooterTest",
    "ListFiles",
    "PartialResult",
    "PartialResultPhase",
    "Piece",
    "PieceDirectory",
    "PieceGroup",
    "Place",
    "Plan",
    "ReadFiles",
    "ReadFooters",
    "ReadKeyValue",
    "ReadRanges",
    "ScanJson",
    "ScanParquet",
    "ScanPieces",
    "StateMachineIterator",
    "StateMachinePhase",
    "Substitute",
    "Terminus",
]
