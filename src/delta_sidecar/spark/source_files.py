"""Which files an ingestion reads: all below a folder, those of a pattern, or those that have arrived.

Spark passes over what is in a folder's folders unless these name partitions (`day=2026-02-10`), takes brackets in a
name for a pattern, and forgets the partitions where it is given single files. Here none of it goes unseen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import IngestError
from delta_sidecar.spark.access import hadoop_configuration
from delta_sidecar.spark.failures import SPARK_ERRORS, line_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

_PATTERN = re.compile(r"[*?{}\[\]\\]")


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Files that are read together.

    Attributes:
        paths: What Spark is given.
        options: Options of its reader, so that it reads all of them and nothing else.
    """

    paths: list[str]
    options: dict[str, str]


def files_at(spark: SparkSession, url: str) -> SourceFiles:
    """The files of a folder, of a pattern, or the one file.

    Args:
        spark: The session.
        url: What Spark calls them.

    Raises:
        IngestError: The place cannot be looked at, or has folders of two kinds.
    """
    try:
        is_literal, folders = _found(spark, url)
    except SPARK_ERRORS as error:
        msg = f"{url} cannot be looked at: {line_of(error)}"
        raise IngestError(msg) from error
    plain = [name for name in folders if "=" not in name]
    if plain and len(plain) < len(folders):
        other = next(name for name in folders if "=" in name)
        msg = f"{url} has the folder {plain[0]} beside {other}, which names a partition: ingest one after the other"
        raise IngestError(msg)
    return SourceFiles([_escaped(url) if is_literal else url], {"recursiveFileLookup": "true"} if plain else {})


def files_of(spark: SparkSession, url: str, paths: Iterable[str]) -> SourceFiles:
    """Single files below a folder or of a pattern.

    Args:
        spark: The session.
        url: The folder or the pattern.
        paths: The files.

    Raises:
        IngestError: Their folders name partitions, and it is not known where these begin.
    """
    listed, options = list(paths), {}
    if any("=" in part for path in listed for part in path.split("/")[:-1]):
        is_literal, _ = _found(spark, url)
        if not is_literal and _PATTERN.search(url):
            msg = f"{url} is a pattern over folders that name partitions: give the folder above them"
            raise IngestError(msg)
        options["basePath"] = url
    return SourceFiles(list(map(_escaped, listed)), options)


def _escaped(path: str) -> str:
    """A path whose brackets and stars are themselves."""
    return _PATTERN.sub(r"\\\g<0>", path)


def _found(spark: SparkSession, url: str) -> tuple[bool, list[str]]:
    """Whether there is something of just this name, and the folders right below it or below what a pattern finds."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    path = jvm.org.apache.hadoop.fs.Path(url)
    system = path.getFileSystem(hadoop_configuration(spark))
    is_literal = bool(system.exists(path))
    matches = [system.getFileStatus(path)] if is_literal else list(system.globStatus(path) or [])
    folders = (each.getPath() for each in matches if each.isDirectory())
    return is_literal, sorted(_visible(system, folders))


def _visible(system: Any, folders: Iterable[Any]) -> Iterator[str]:  # noqa: ANN401 - objects of the JVM
    for folder in folders:
        for each in system.listStatus(folder):
            name = each.getPath().getName()
            if each.isDirectory() and not name.startswith((".", "_")):
                yield name
