"""The public names, frozen: adding or removing one is a decision that shows in a diff of this file."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import delta_sidecar
from delta_sidecar import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = Path(delta_sidecar.__file__).parent
PUBLIC = [
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


def test_the_public_names_are_these() -> None:
    assert delta_sidecar.__all__ == PUBLIC


def test_nothing_public_is_left_out_of_all() -> None:
    names = [name for name in dir(delta_sidecar) if not name.startswith("_")]
    assert {name for name in names if _is_ours(getattr(delta_sidecar, name))} == set(PUBLIC)


def test_a_name_that_does_not_exist_is_missed() -> None:
    with pytest.raises(AttributeError, match="module 'delta_sidecar' has no attribute 'LazyScaner'"):
        delta_sidecar.LazyScaner  # type: ignore[attr-defined]  # noqa: B018 - asking for it is enough
    with pytest.raises(ImportError):
        from delta_sidecar import LazyScaner  # type: ignore[attr-defined]  # noqa: F401


def test_a_name_is_the_same_however_it_is_had() -> None:
    starred: dict[str, object] = {}
    exec("from delta_sidecar import *", starred)  # noqa: S102 - only a module may have a star in it
    for name in PUBLIC:
        value = getattr(delta_sidecar, name)
        assert starred[name] is value
        assert getattr(importlib.import_module(value.__module__), name) is value


def test_a_value_is_unpickled_where_nothing_was_imported_yet() -> None:
    text = pickle.dumps(delta_sidecar.LazyScanConfig(limit=3))
    code = f"import pickle; print(pickle.loads({text!r}).limit)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.strip() == b"3"


def test_every_error_is_public() -> None:
    classes = {name for name, value in vars(errors).items() if inspect.isclass(value) and name[0] != "_"}
    assert classes <= set(PUBLIC)
    assert all(name in (errors.__doc__ or "") for name in classes), "the tree at the top of errors.py is whole"


def test_every_error_has_the_one_base() -> None:
    raised = [
        value for value in vars(delta_sidecar).values() if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert raised
    assert all(issubclass(value, delta_sidecar.DeltaSidecarError) for value in raised)


def test_a_public_name_has_a_docstring(subtests: pytest.Subtests) -> None:
    for name in PUBLIC:
        with subtests.test(name):
            value = getattr(delta_sidecar, name)
            assert value.__doc__
            # A dataclass without a docstring gets its signature for one.
            assert not value.__doc__.startswith(f"{name}(")


def test_a_public_callable_is_annotated(subtests: pytest.Subtests) -> None:
    for name in PUBLIC:
        with subtests.test(name):
            bare = [
                f"{function.__qualname__}({parameter})"
                for function in _functions(getattr(delta_sidecar, name))
                for parameter in _unannotated(function)
            ]
            assert not bare


def test_a_public_method_has_a_docstring(subtests: pytest.Subtests) -> None:
    for name in PUBLIC:
        with subtests.test(name):
            bare = [
                function.__qualname__
                for function in _functions(getattr(delta_sidecar, name))
                if not function.__name__.startswith("_") and not function.__doc__
            ]
            assert not bare


def _is_ours(value: object) -> bool:
    return not inspect.ismodule(value) and getattr(value, "__module__", "").startswith("delta_sidecar")


def _functions(value: object) -> Iterator[Callable[..., object]]:
    """The functions behind a public name: itself, or what its class defines in the source."""
    if inspect.isfunction(value):
        yield value
    if not inspect.isclass(value):
        return
    for member in vars(value).values():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        plain = plain.fget if isinstance(plain, property) else plain
        # Dataclasses and enums add methods of their own; those are in no file of ours.
        if inspect.isfunction(plain) and Path(plain.__code__.co_filename).is_relative_to(SOURCE):
            yield plain


def _unannotated(function: Callable[..., object]) -> Iterator[str]:
    signature = inspect.signature(function)
    for index, parameter in enumerate(signature.parameters.values()):
        receiver = index == 0 and parameter.name in {"self", "cls"}
        if parameter.annotation is inspect.Parameter.empty and not receiver:
            yield parameter.name
    if signature.return_annotation is inspect.Signature.empty:
        yield "return"
