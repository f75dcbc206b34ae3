"""What a lazy dataset does not have of pyarrow's datasets: each is refused by name, and nothing crashes."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from deltalake import write_deltalake

from delta_sidecar import DeltaTable, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from delta_sidecar.rows.dataset import LazyDataset


@pytest.fixture
def dataset(tmp_path: Path) -> LazyDataset:
    write_deltalake(tmp_path, pa.table({"x": [1, 2, 3]}))
    made: LazyDataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    return made


REFUSED: dict[str, Callable[[Any], object]] = {
    "files": lambda it: it.files,
    "filesystem": lambda it: it.filesystem,
    "replace_schema": lambda it: it.replace_schema(it.schema),
    "sort_by": lambda it: it.sort_by("x"),
    "join": lambda it: it.join(it, "x"),
    "join_asof": lambda it: it.join_asof(it, "x", "x", 1),
    "fragment_scan_options": lambda it: it.to_table(fragment_scan_options=pads.ParquetFragmentScanOptions()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(dataset: LazyDataset, name: str) -> None:
    with pytest.raises(OptionError, match=f"^{name} is not"):
        REFUSED[name](dataset)


def test_who_asks_whether_it_has_something_is_answered(dataset: LazyDataset) -> None:
    assert not hasattr(dataset, "files")
    assert getattr(dataset, "filesystem", None) is None


def test_a_dataset_is_not_pickled(dataset: LazyDataset) -> None:
    with pytest.raises(TypeError, match="make one of the table's address"):
        pickle.dumps(dataset)


def test_how_to_read_is_taken_and_what_is_unknown_is_not(dataset: LazyDataset) -> None:
    assert dataset.to_table(use_threads=False, batch_readahead=1, fragment_readahead=1).num_rows == 3
    with pytest.raises(TypeError, match="no argument colums"):
        dataset.scanner(colums=["x"])


# Whatever reaches pyarrow's own code over the dataset, one expression each.
PROBES = (
    "pads.dataset([it]).to_table()",
    "pads.UnionDataset(it.schema, [it]).to_table()",
    "pads.UnionDataset(it.schema, [it]).count_rows()",
    "pads.UnionDataset(it.schema, [it]).head(1)",
    "pads.Scanner.from_dataset(it).to_table()",
    "pads.Scanner.from_dataset(it).count_rows()",
    "pads.Dataset.scanner(it).to_table()",
    "pads.Dataset.sort_by(it, 'x')",
    "pads.Dataset.join(it, it, 'x')",
    "pads.Dataset.join_asof(it, it, 'x', 'x', 1)",
    "pads.Dataset.replace_schema(it, it.schema).to_table()",
    "[fragment.to_table() for fragment in pads.Dataset.get_fragments(it)]",
    "[fragment.physical_schema for fragment in pads.Dataset.get_fragments(it)]",
    "acero.Declaration('scan', acero.ScanNodeOptions(it)).to_table()",
    "pads.write_dataset(it, folder, format='parquet')",
)
HARMLESS = (
    "it.schema",
    "it.format",
    "it.partitioning",
    "str(it.partition_expression)",
    "repr(it)",
    "hash(it) and it == it and bool(it)",
    "dir(it)",
)
CODE = """
import json, sys
import pyarrow.dataset as pads
from pyarrow import acero
from delta_sidecar import DeltaTable
folder = sys.argv[1]
it = DeltaTable(folder).to_pyarrow_dataset()
for probe in json.loads(sys.argv[2]):
    try:
        answer = f"gave {eval(probe)!r}"
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""


def test_pyarrow_finds_no_rows_by_itself_and_does_not_crash(dataset: LazyDataset, tmp_path: Path) -> None:
    assert dataset.count_rows() == 3
    command = [sys.executable, "-c", CODE, str(tmp_path), json.dumps([*PROBES, *HARMLESS])]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    answers = dict(zip((*PROBES, *HARMLESS), map(json.loads, run.stdout.splitlines()), strict=True))
    for probe in PROBES:
        assert not answers[probe].startswith("gave "), probe
        told = ("pyarrow cannot read the files of a lazy Delta table", "is not offered by the lazy dataset")
        expected = ("TypeError",) if "write_dataset" in probe else told
        assert any(text in answers[probe] for text in expected), f"{probe}: {answers[probe]}"
    for probe in HARMLESS:
        assert answers[probe].startswith("gave "), f"{probe}: {answers[probe]}"
