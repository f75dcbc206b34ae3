"""Runs deltalake's own Python tests with `DeltaTable` and `write_deltalake` of this library in place of deltalake's.

    .venv/bin/python tools/deltalake_suite.py path/to/delta-rs [--select merge]

The tests run twice, in copies of the checkout's `python/tests` and `crates/test/tests/data`: as they are, and with the
two names imported from delta_sidecar; nothing else is changed. Tests that need a service are left out, as deltalake's
own settings leave them out. The report has the number of tests that pass with deltalake, how many of them pass with
this library, and the first line of the error of each that does not. A test that fails because the table feature
`timestampNanos` is refused is counted apart.

`PACKAGES` are installed by pip into the folder of the copies (`--work`), beside what the Python that runs this has.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

NAMES = frozenset({"DeltaTable", "write_deltalake"})
"""What is imported from delta_sidecar instead of deltalake, or of a module of deltalake."""

PACKAGES = (
    "arro3-io",
    "azure-storage-blob",
    "isodate",
    "py-cpuinfo",
    "pytest-benchmark",
    "pytest-mock",
    "pytest-timeout",
)
"""What deltalake's tests need and this project's do not."""

_FOLDERS = ("python/tests", "crates/test/tests/data")
_SETTINGS = ("python/pyproject.toml", "python/conftest.py")
_REFUSED = "timestampNanos"
_PYTEST = (
    *("-q", "-p", "no:cacheprovider", "--override-ini=addopts=", "--tb=short", "--benchmark-disable"),
    *("-m", "not integration and not benchmark and not no_pyarrow", "--ignore=tests/pyspark_integration"),
)


def main() -> None:
    """Runs both, and prints what differs."""
    arguments = _arguments()
    work = arguments.work or Path(tempfile.mkdtemp(prefix="deltalake-suite-"))
    print(f"copies, packages and full reports are in {work}")
    packages = work / "packages"
    if not packages.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), *PACKAGES]
        subprocess.run(pip, check=True)
    theirs = _run(arguments, work / "deltalake", packages, is_replaced=False)
    ours = _run(arguments, work / "delta_sidecar", packages, is_replaced=True)
    passed = [test for test, error in theirs.items() if error is None]
    failed = {test: error for test in passed if (error := ours.get(test, "it was not run")) is not None}
    refused = {test for test, error in failed.items() if _REFUSED in error}
    for test, error in failed.items():
        print(f"{'refused' if test in refused else 'failed'}: {test}\n    {error.strip().splitlines()[0][:300]}")
    both = len(passed) - len(failed)
    print(f"{len(passed)} pass with deltalake, {both} of them with delta_sidecar")
    print(f"without {len(refused)} that need {_REFUSED}: {both} of {len(passed) - len(refused)}")


def with_imports_replaced(source: str) -> str:
    """The source of a module in which `NAMES` are imported from delta_sidecar."""
    lines = source.splitlines(keepends=True)
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    for node in sorted(found, key=lambda each: -each.lineno):
        ours = [each for each in node.names if each.name in NAMES]
        if ours and (node.module or "").partition(".")[0] == "deltalake":
            theirs = [each for each in node.names if each not in ours]
            made = [
                ast.ImportFrom("delta_sidecar", ours, 0),
                *([ast.ImportFrom(node.module, theirs, 0)] if theirs else []),
            ]
            indent = " " * node.col_offset
            lines[node.lineno - 1 : node.end_lineno] = [f"{indent}{ast.unparse(each)}\n" for each in made]
    return "".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="deltalake's own tests, with this library in its place.")
    parser.add_argument("checkout", type=Path, help="a checkout of delta-io/delta-rs")
    parser.add_argument("--work", type=Path, help="a folder for copies and packages, outside of the project")
    parser.add_argument("--select", default="", help="only tests whose names match, as -k of pytest takes it")
    return parser.parse_args()


def _run(arguments: argparse.Namespace, copy: Path, packages: Path, *, is_replaced: bool) -> dict[str, str | None]:
    """Runs the tests in a copy. Gives the error of each, or why it was skipped; None where it passed."""
    shutil.rmtree(copy, ignore_errors=True)
    for folder in _FOLDERS:
        shutil.copytree(arguments.checkout / folder, copy / folder)
    for file in _SETTINGS:
        shutil.copy(arguments.checkout / file, copy / file)
    for module in (copy / "python/tests").rglob("*.py") if is_replaced else ():
        module.write_text(with_imports_replaced(module.read_text(encoding="utf-8")), encoding="utf-8")
    report = copy.with_suffix(".xml")
    command = [sys.executable, "-m", "pytest", *_PYTEST, f"--junitxml={report}", "tests", "-k", arguments.select]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    with copy.with_suffix(".log").open("w", encoding="utf-8") as log:
        subprocess.run(command, cwd=copy / "python", env=environment, stdout=log, check=False)
    cases = ET.parse(report).iter("testcase")  # noqa: S314 - pytest wrote it
    return {f"{case.get('classname')}::{case.get('name')}": _error(case) for case in cases}


def _error(case: ET.Element) -> str | None:
    found = [each for kind in ("error", "failure", "skipped") for each in case.iter(kind)]
    return "\n".join(f"{each.get('type') or each.tag}: {each.get('message')}\n{each.text}" for each in found) or None


if __name__ == "__main__":
    main()
