"""Errors, by the classes that users of deltalake, Python and Arrow catch."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

import delta_sidecar
from delta_sidecar import DeltaTable, LazyDeltaScanner, LazyScanConfig, errors

if TYPE_CHECKING:
    from collections.abc import Callable


def without_its_file(table: str) -> DeltaTable:
    for file in DeltaTable(table).file_uris():
        Path(file).unlink()
    return DeltaTable(table)


def of_a_newer_protocol(table: str) -> DeltaTable:
    protocol = '{"protocol":{"minReaderVersion":99,"minWriterVersion":99}}\n'
    (Path(table) / "_delta_log" / f"{1:020}.json").write_text(protocol, encoding="utf-8")
    return DeltaTable(table)


# A call, and what may stand behind `except`.
CLAUSES: dict[str, tuple[Callable[[str], Any], tuple[type[Exception], ...]]] = {
    "no table": (
        lambda table: DeltaTable(table + "/nothing").version(),
        (TableNotFoundError, DeltaError, delta_sidecar.TableNotFoundError),
    ),
    "no table to vacuum": (lambda table: DeltaTable(table + "/nothing").vacuum(), (TableNotFoundError, DeltaError)),
    "no table to scan": (
        lambda table: list(LazyDeltaScanner(table + "/nothing").scan_files()),
        (TableNotFoundError, delta_sidecar.TableNotFoundError),
    ),
    "no version": (
        lambda table: DeltaTable(table, version=9).to_pyarrow_table(),
        (DeltaError, delta_sidecar.VersionNotFoundError),
    ),
    "no version to delete from": (lambda table: DeltaTable(table, version=9).delete(), (DeltaError,)),
    "no version to load": (lambda table: DeltaTable(table).load_as_version(9), (DeltaError,)),
    "a newer protocol": (
        lambda table: of_a_newer_protocol(table).to_pyarrow_table(),
        (DeltaProtocolError, DeltaError, delta_sidecar.DeltaProtocolError),
    ),
    "a version that is no number": (
        lambda table: DeltaTable(table).load_as_version(1.5),  # type: ignore[arg-type]
        (TypeError, delta_sidecar.OptionError),
    ),
    "another that is no number": (
        lambda table: DeltaTable(table, version="1").version(),  # type: ignore[arg-type]
        (TypeError, delta_sidecar.OptionError),
    ),
    "a time that is none": (lambda table: DeltaTable(table).load_as_version("yesterday"), (ValueError,)),
    "a value that is none": (lambda table: DeltaTable(table).to_pyarrow_dataset([("p", "=", {"a": 1})]), (ValueError,)),
    "an operator that is none": (lambda table: DeltaTable(table).file_uris([("p", "=>", "a")]), (ValueError,)),
    "no column": (lambda table: DeltaTable(table).to_pyarrow_table(columns=["nope"]), (ValueError,)),
    "no column to scan": (
        lambda table: DeltaTable(table).scan(predicate="nope = 1").read_all(),
        (ValueError, delta_sidecar.PredicateError),
    ),
    "no option": (lambda table: DeltaTable(table, options={"nope": 1}), (ValueError, delta_sidecar.OptionError)),
    "no page token": (lambda _: LazyScanConfig(page_token="nope"), (ValueError, delta_sidecar.PageTokenError)),  # noqa: S106
    "no data file": (
        lambda table: without_its_file(table).to_pyarrow_table(),
        (FileNotFoundError, OSError, DeltaError, delta_sidecar.UnreadableFileError),
    ),
    "no data file in a dataset": (
        lambda table: without_its_file(table).to_pyarrow_dataset().to_table(),
        (FileNotFoundError, OSError, delta_sidecar.MissingDataFileError),
    ),
    "no data file in a fragment": (
        lambda table: next(iter(without_its_file(table).to_pyarrow_dataset().get_fragments())).physical_schema,
        (FileNotFoundError,),
    ),
    "a write that deltalake refuses": (lambda table: DeltaTable(table).delete("nope = 1"), (DeltaError,)),
}


def test_an_error_is_caught_by_the_clauses_of_others(tmp_path: Path, subtests: pytest.Subtests) -> None:
    deltalake.write_deltalake(tmp_path / "table", pa.table({"id": [1], "p": ["a"]}), partition_by=["p"])
    cases = [(name, call, caught) for name, (call, kinds) in CLAUSES.items() for caught in kinds]
    for number, (name, call, caught) in enumerate(cases):
        with subtests.test(f"{name}, except {caught.__module__}.{caught.__name__}"):
            # Some calls change their table.
            table = shutil.copytree(tmp_path / "table", tmp_path / str(number))
            with pytest.raises(caught):
                call(str(table))


def test_every_error_is_one_of_deltalake_and_goes_to_other_processes() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DeltaSidecarError)
    ]
    assert len(kinds) > 30
    for kind in kinds:
        made = kind("what happened")
        assert isinstance(made, DeltaError)
        again = pickle.loads(pickle.dumps(made))  # noqa: S301 - made here
        assert (type(again), str(again), vars(again)) == (kind, "what happened", vars(made))
    assert issubclass(errors.TableNotFoundError, TableNotFoundError)
    assert issubclass(errors.UnsupportedFeatureError, DeltaProtocolError)
    assert issubclass(errors.SchemaMismatchError, SchemaMismatchError)
    assert issubclass(errors.CommitFailedError, CommitFailedError)
    assert not issubclass(errors.OptionError, TableNotFoundError)
    again = pickle.loads(pickle.dumps(errors.MissingDataFileError("gone", "a.parquet", 3)))  # noqa: S301 - made here
    assert (again.path, again.label, again.args) == ("a.parquet", 3, ("gone",))


def test_nothing_imports_deltalake_for_an_error_and_one_that_comes_later_is_known() -> None:
    program = """
        import sys
        from delta_sidecar import DeltaSidecarError, TableNotFoundError
        before = TableNotFoundError("before")
        assert "deltalake" not in sys.modules
        assert [each.__name__ for each in type(before).__mro__[:2]] == ["TableNotFoundError", "DeltaSidecarError"]
        import deltalake
        for ours in (TableNotFoundError("after"), TableNotFoundError("again")):
            try:
                raise ours
            except deltalake.exceptions.TableNotFoundError as error:
                assert isinstance(error, DeltaSidecarError)
        try:
            raise before
        except deltalake.exceptions.DeltaError:
            print("caught")
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("caught\n", "")


def test_a_class_of_both_libraries_does_not_break_other_errors() -> None:
    program = """
        from deltalake.exceptions import DeltaError
        from delta_sidecar import DeltaSidecarError, DeltaTable, TableNotFoundError

        class Bridge(DeltaError, DeltaSidecarError):
            pass

        for _ in range(2):
            try:
                DeltaTable("/nowhere")
            except TableNotFoundError:
                print("caught")
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (ran.stdout.split(), ran.stderr) == (["caught", "caught"], "")
