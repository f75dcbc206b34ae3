"""How a pipeline writes: its options, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from delta_sidecar.errors import OptionError
from delta_sidecar.options import flag, one_of, size, whole_number
from delta_sidecar.spark.buckets import TimeBucket
from delta_sidecar.spark.tables import table_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BadTimestamps: TypeAlias = Literal["reject", "null_bucket"]


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How a pipeline writes; see `IngestPipeline`.

    Raises:
        OptionError: A value is not valid.
    """

    bucket: TimeBucket = field(default_factory=TimeBucket)
    checkpoint_interval: int = 10
    target_file_size: int | str = "128MB"
    bad_timestamps: BadTimestamps = "reject"
    merge_schema: bool = False
    change_data_feed: bool = False
    deletion_vectors: bool = False
    sidecars: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        reads: dict[str, Callable[[object], object]] = {
            "checkpoint_interval": whole_number(1, 1_000_000),
            "target_file_size": size(1 << 40),
            "bad_timestamps": one_of("reject", "null_bucket"),
            "merge_schema": flag,
            "change_data_feed": flag,
            "deletion_vectors": flag,
            "sidecars": flag,
        }
        for name, read in reads.items():
            try:
                object.__setattr__(self, name, read(getattr(self, name)))
            except ValueError as error:
                msg = f"{name} must be {error}, not {getattr(self, name)!r}"
                raise OptionError(msg) from None
        if self.file_bytes < 1:
            msg = "target_file_size must be at least one byte"
            raise OptionError(msg)

    @property
    def file_bytes(self) -> int:
        """The size that data files should have."""
        return int(self.target_file_size)

    @property
    def marked_interval(self) -> int:
        """How often the pipeline makes checkpoints and metadata sidecars, as its commits tell others; 0 for never."""
        return self.checkpoint_interval if self.sidecars else 0

    def table_properties(self) -> dict[str, str]:
        """The properties of a table that is made."""
        made = table_properties(
            checkpoint_interval=self.checkpoint_interval,
            change_data_feed=self.change_data_feed,
            deletion_vectors=self.deletion_vectors,
        )
        return made | dict(self.properties)
