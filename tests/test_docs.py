"""What the documentation says about names, options and flags is what the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import delta_sidecar
from delta_sidecar.store.client import AZURE_OPTIONS, GOOGLE_OPTIONS, REQUEST_OPTIONS, S3_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from delta_sidecar.store.options import StorageOption

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
STORES = ROOT / "docs" / "guides" / "stores-and-credentials.md"
COMMAND = ROOT / "docs" / "reference" / "cli.md"


@pytest.mark.parametrize(
    "options",
    [AZURE_OPTIONS, S3_OPTIONS, GOOGLE_OPTIONS, REQUEST_OPTIONS],
    ids=["azure", "s3", "google", "requests"],
)
def test_the_table_of_storage_options_is_whole(options: Iterable[StorageOption]) -> None:
    assert table_of(options) in STORES.read_text()


def test_every_flag_of_the_command_is_documented() -> None:
    import click

    from delta_sidecar.cli import main

    assert isinstance(main, click.Group)
    text = COMMAND.read_text()
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert f"## `delta-sidecar {name} " in text
        flags = {max(parameter.opts, key=len) for parameter in command.params if isinstance(parameter, click.Option)}
        assert {flag for flag in flags if f"`{flag}" not in text} == set()


def test_code_has_no_escaped_bars(subtests: pytest.Subtests) -> None:
    """In code inside of a table, the site shows the backslash as well."""
    for page in PAGES:
        with subtests.test(str(page.relative_to(ROOT))):
            assert re.findall(r"`[^`\n]*\\\|[^`\n]*`", page.read_text()) == []


def test_python_examples_use_names_that_exist(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(str(page.relative_to(ROOT))):
            for code in examples(page):
                for node in ast.walk(ast.parse(code)):
                    if isinstance(node, ast.ImportFrom) and node.module == "delta_sidecar":
                        assert {alias.name for alias in node.names} <= set(delta_sidecar.__all__)


def test_the_examples_of_reading_an_old_version_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.scan.dated_tables import MINUTE, NOW, dated, moment

    from delta_sidecar.scan import retention

    monkeypatch.setattr(retention, "_now", lambda: moment(NOW + 100 * 24 * 60 * MINUTE))
    dated(tmp_path / "telemetry", [NOW, NOW + MINUTE, NOW + 2 * MINUTE])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in examples(ROOT / "docs" / "guides" / "time-travel.md"):
        exec(code, names)  # noqa: S102 - the examples
    assert sorted(names["paths"]) == ["0.parquet", "1.parquet"]
    version, refusal = capsys.readouterr().out.splitlines()
    assert version == "1"
    assert "the retention guard refuses version 1" in refusal
    with pytest.raises(delta_sidecar.RetentionGuardError, match="our vacuum runs with a retention of 30 days"):
        delta_sidecar.LazyDeltaScanner("./telemetry", names["config"]).snapshot()


@pytest.mark.parametrize("name", ["guides/paging.md", "concepts/strategies.md"])
def test_the_examples_of_paging_and_strategies_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from delta_sidecar.synth import TelemetryLog

    TelemetryLog(files=3_000, tail_commits=2).write(tmp_path / "telemetry")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in examples(ROOT / "docs" / name):
        exec(code, names)  # noqa: S102 - the examples
    scanner = delta_sidecar.LazyDeltaScanner("./telemetry")
    if name == "guides/paging.md":
        config = delta_sidecar.LazyScanConfig(predicate="_event_hour >= '2025010101'")
        whole = [file.path for file in delta_sidecar.LazyDeltaScanner("./telemetry", config).scan_files()]
        assert len(whole) > 200
        assert sorted(names["files"]) == sorted(whole)
        assert len(list(names["rest"])) == len(list(scanner.scan_files())) - 42
    else:
        assert capsys.readouterr().out == "reverse since a limit is soon reached from the newest commits on\n"


def test_the_examples_of_the_engine_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from delta_sidecar.synth import TelemetryLog

    TelemetryLog(files=3_000, tail_commits=2).write(tmp_path / "telemetry")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in examples(ROOT / "docs" / "reference" / "engine.md"):
        exec(code, names)  # noqa: S102 - the examples
    files = [file.path for file in delta_sidecar.LazyDeltaScanner("./telemetry").scan_files()]
    assert sorted(path for batch in names["batches"] for path in batch.column("path").to_pylist()) == sorted(files)
    config = delta_sidecar.LazyScanConfig(predicate="_event_hour >= '2025010101'")
    chosen = [file.path for file in delta_sidecar.LazyDeltaScanner("./telemetry", config).scan_files()]
    assert names["paths"] == chosen
    assert len(chosen) < len(files)
    scan, snapshot = names["ended"], names["latest"]
    assert capsys.readouterr().out == f"{snapshot.version} {scan.predicate} ('_event_hour',)\n"
    assert scan.logical_schema == scan.physical_schema == snapshot.schema


def test_the_examples_of_building_and_cleaning_up_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from delta_sidecar.synth import TelemetryLog

    TelemetryLog(files=3_000, tail_commits=2).write(tmp_path / "telemetry")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    building, disabling = examples(ROOT / "docs" / "guides" / "build-sidecars.md")
    exec(building, names)  # noqa: S102 - the examples
    assert capsys.readouterr().out.startswith(f"{names['summary'].version} 3100 ")
    exec(disabling, names)  # noqa: S102 - the examples
    assert names["scanner"].explain().base.tier == 3
    assert delta_sidecar.LazyDeltaScanner("./telemetry").explain().base.tier == 1
    for code in examples(ROOT / "docs" / "guides" / "clean-up.md"):
        exec(code, names)  # noqa: S102 - the examples
    assert names["summary"].deleted == ()


@pytest.mark.parametrize("name", ["read-rows", "query-from-engines", "from-deltalake"])
def test_the_examples_of_reading_rows_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.small_files import small_files

    small_files(tmp_path / "telemetry", files=160)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in examples(ROOT / "docs" / "guides" / f"{name}.md"):
        exec(code, names)  # noqa: S102 - the examples
        if name == "query-from-engines":
            assert len(names["rows"])
    if name == "read-rows":
        assert names["count"] == len(names["frame"]) == names["rows"].num_rows == 160 * 20


def test_examples_in_the_readme_are_at_most_ten_lines() -> None:
    lengths = [len([line for line in code.splitlines() if line.strip()]) for code in examples(ROOT / "README.md")]
    assert lengths
    assert max(lengths) <= 10


def table_of(options: Iterable[StorageOption]) -> str:
    rows = ["| option | environment | default | meaning |", "|---|---|---|---|"]
    for option in options:
        variables = ", ".join(f"`{name}`" for name in option.environment)
        default = option.default or ""
        default = f"`{default}`" if default and " " not in default else default
        rows.append(f"| `{option.key}` | {variables} | {default} | {option.meaning} |")
    return "\n".join(rows) + "\n"


def examples(page: Path) -> Iterator[str]:
    blocks = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return (found[1] for found in blocks.finditer(page.read_text()))


def test_hints_name_a_way_to_install_that_works() -> None:
    pages = [path for folder in ("src", "docs", "examples") for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = [path for path in (*pages, ROOT / "README.md") if path.suffix in {".py", ".md"}]
    assert len(texts) > 200
    # It is on no package index: one that is asked for it has nothing, or what somebody else put there.
    assert [
        path for path in texts if re.search(r"pip install \S*delta-sidecar", path.read_text(encoding="utf-8"))
    ] == []
