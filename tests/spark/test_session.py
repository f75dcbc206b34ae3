"""Sessions of Spark: what they are started with, and what is said where they cannot be."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import IVY

from delta_sidecar.errors import OptionError, SparkSetupError
from delta_sidecar.spark import session as sessions
from delta_sidecar.spark.access import hadoop_url
from delta_sidecar.spark.session import (
    DELTA_CATALOG,
    DELTA_EXTENSION,
    _Output,
    _reason,
    delta_package,
    hadoop_package,
    spark_session,
)
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake


@pytest.mark.full
def test_spark_and_our_store_see_the_same_table(spark: SparkSession, lake: Lake) -> None:
    url = lake.new_url()
    spark.range(10).write.format("delta").save(hadoop_url(url, lake.options))
    assert spark.read.format("delta").load(hadoop_url(url, lake.options)).count() == 10
    commit = open_store(url, lake.options).get("_delta_log/00000000000000000000.json")
    assert b'"add"' in bytes(commit.data)


def test_the_session_that_runs_is_used(spark: SparkSession, local_lake: Lake) -> None:
    assert spark_session(local_lake.url("t"), name="another", master="local[7]") is spark


@pytest.mark.usefixtures("spark")
def test_a_session_without_delta_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "DELTA_CATALOG", "org.example.AnotherCatalog")
    with pytest.raises(SparkSetupError, match=r"running without Delta: its setting spark\.sql\.catalog\.spark_catalog"):
        spark_session()


def test_another_delta_than_the_open_one_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark_session() is spark
    monkeypatch.setattr(sessions, "_DELTA_LOG", "com.example.AnotherDeltaLog")
    with pytest.raises(SparkSetupError, match=r"without the class com\.example\.AnotherDeltaLog"):
        spark_session()


def test_a_session_of_spark_connect_is_refused() -> None:
    with pytest.raises(SparkSetupError, match="Spark Connect"):
        sessions.check_session(object())  # type: ignore[arg-type]  # it has no JVM either


def test_a_jvm_without_deltas_jar_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "org.example.MissingExtension"
    monkeypatch.setattr(sessions, "DELTA_EXTENSION", missing)
    monkeypatch.setattr(spark.conf, "get", lambda name, _: missing if "extensions" in name else DELTA_CATALOG)
    with pytest.raises(SparkSetupError, match=r"started without Delta's jar: start it with the package io\.delta:"):
        spark_session()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("s3://bucket/t", "package org.apache.hadoop:hadoop-aws"),
        ("gs://bucket/t", "Google's connector is none of ours"),
    ],
)
def test_a_session_without_the_file_system_is_refused(address: str, says: str) -> None:
    with pytest.raises(SparkSetupError, match=says):
        spark_session(address)


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.fixed.token",
        "spark.hadoop.fs.azure.account.oauth2.client.secret",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.bucket.lake.access.key",
        "fs.s3a.session.token",
    ],
)
def test_credentials_are_refused_as_settings(name: str) -> None:
    with pytest.raises(OptionError, match="give it as a storage option") as raised:
        spark_session(settings={name: "much too secret"})
    assert name in str(raised.value)
    assert "much" not in str(raised.value)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What a new session would be started with; none is."""
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(sessions, "_running", lambda: None)
    monkeypatch.setattr(sessions, "check_session", lambda *_: None)
    monkeypatch.setattr(sessions, "_check_file_system", lambda *_: None)
    monkeypatch.setattr(sessions, "grant", lambda *_: None)
    monkeypatch.setattr(sessions, "grant_path", lambda *_: None)
    monkeypatch.setattr(sessions, "launch", seen.append)
    monkeypatch.setenv("PYSPARK_PYTHON", "a python")
    return seen


def test_what_a_session_is_started_with(launched: list[dict[str, str]]) -> None:
    spark_session()
    assert {key: value for key, value in launched[0].items() if key != "spark.redaction.regex"} == {
        "spark.app.name": "delta-sidecar",
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.jars.packages": delta_package(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": (Path(tempfile.gettempdir()) / "spark-warehouse").as_uri(),
    }


@pytest.mark.parametrize(
    ("address", "artifact"),
    [
        ("abfss://lake@acct.dfs.core.windows.net/t", "hadoop-azure"),
        ("s3://bucket/t", "hadoop-aws"),
        ("/data/t", None),
        ("gs://bucket/t", None),
    ],
)
def test_the_address_decides_about_the_jars(launched: list[dict[str, str]], address: str, artifact: str | None) -> None:
    spark_session(address, packages=["org.example:thing:1", delta_package()])
    more = [] if artifact is None else [hadoop_package(artifact)]
    assert launched[0]["spark.jars.packages"].split(",") == [delta_package(), *more, "org.example:thing:1"]


def test_more_addresses_bring_their_jars_too(launched: list[dict[str, str]]) -> None:
    spark_session("/data/t", others=["abfss://lake@acct.dfs.core.windows.net/new", "hdfs://name/x"])
    assert launched[0]["spark.jars.packages"].split(",") == [delta_package(), hadoop_package("hadoop-azure")]


def test_jars_that_spark_has_are_not_fetched(
    launched: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "jars").mkdir()
    for jar in ("delta-spark_4.2_2.13-4.4.0.jar", "hadoop-azure-3.5.0.jar"):
        (tmp_path / "jars" / jar).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    spark_session("abfss://lake@acct.dfs.core.windows.net/t")
    assert "spark.jars.packages" not in launched[0]


def test_settings_hold_before_ours(launched: list[dict[str, str]]) -> None:
    own = {"spark.log.level": "INFO", "spark.sql.extensions": "org.example.Mine", "spark.master": "local[3]"}
    spark_session(settings=own, master="local[2]")
    assert launched[0].items() >= {"spark.log.level": "INFO", "spark.master": "local[3]"}.items()
    assert launched[0]["spark.sql.extensions"] == f"{DELTA_EXTENSION},org.example.Mine"
    assert own["spark.sql.extensions"] == "org.example.Mine"


@pytest.mark.parametrize(("master", "python"), [("local[2]", sys.executable), (None, sys.executable), ("yarn", None)])
@pytest.mark.usefixtures("launched")
def test_workers_of_this_machine_are_of_this_python(
    monkeypatch: pytest.MonkeyPatch, master: str | None, python: str | None
) -> None:
    environment: dict[str, str] = {}
    monkeypatch.setattr(sessions.os, "environ", environment)
    spark_session(master=master)
    assert environment.get("PYSPARK_PYTHON") == python


def test_what_is_wrong_is_told_before_spark_is_started(launched: list[dict[str, str]]) -> None:
    with pytest.raises(OptionError, match="unknown storage option"):
        spark_session("/data/t", storage_options={"acount_key": "x"})
    assert not launched


def test_without_delta_spark_one_is_told_what_to_install(
    launched: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(sessions, "version", missing)
    with pytest.raises(
        SparkSetupError, match=r"delta-spark is not installed: pip install '\.\[spark\]' in a clone of delta-sidecar"
    ):
        spark_session()
    assert not launched


def test_hadoop_is_of_the_version_that_spark_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkSetupError, match="no Hadoop among Spark's jars"):
        hadoop_package("hadoop-azure")
    (tmp_path / "jars" / "hadoop-client-api-9.8.7.jar").touch()
    assert hadoop_package("hadoop-azure") == "org.apache.hadoop:hadoop-azure:9.8.7"


def run(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs code with a session of its own, and gives what it wrote."""
    before = f"from delta_sidecar.spark.session import spark_session\nsettings = {json.dumps(settings)}\n"
    return subprocess.run([sys.executable, "-c", before + code], capture_output=True, check=False, text=True)


@pytest.mark.full
@pytest.mark.slow
def test_a_start_is_quiet_and_what_comes_later_is_heard() -> None:
    code = (
        "spark = spark_session(master='local[1]', settings=settings)\n"
        "print(spark.createDataFrame([(1, [2])], 'a int, b array<int>').collect())\n"
        "spark._jvm.java.lang.System.err.println('a word of the JVM')\n"
        "import threading\n"
        "gateway = spark.sparkContext._gateway\n"
        "spark.stop()\n"
        "gateway.shutdown()\n"
        "gateway.proc.communicate()\n"
        "[thread.join() for thread in threading.enumerate() if thread.name == 'output of Spark']\n"
    )
    ran = run(code, **{"spark.jars.ivy": str(IVY)})
    assert (ran.stdout, ran.stderr, ran.returncode) == ("[Row(a=1, b=[2])]\n", "a word of the JVM\n", 0)


@pytest.mark.full
@pytest.mark.slow
def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    settings = tmp_path / "settings.xml"
    nowhere = f'<filesystem name="nowhere"><artifact pattern="{tmp_path}/[artifact].jar"/></filesystem>'
    settings.write_text(
        f'<ivysettings><settings defaultResolver="nowhere"/><resolvers>{nowhere}</resolvers></ivysettings>'
    )
    code = (
        "from delta_sidecar.errors import SparkSetupError\n"
        "try:\n    spark_session(settings=settings)\n"
        "except SparkSetupError as error:\n    print(error, '|', *error.__notes__)\n"
    )
    ran = run(code, **{"spark.jars.ivySettings": str(settings), "spark.jars.ivy": str(tmp_path / "ivy")})
    message, _, note = ran.stdout.partition(" | ")
    # Ivy says on the other stream that it has been given settings.
    assert message.splitlines()[-1].startswith("Spark did not start: unresolved dependency: io.delta#delta-spark")
    assert "UNRESOLVED DEPENDENCIES" in note
    assert not ran.stderr


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", ""),
        ("one\n\ntwo\n\n", "two"),
        ("Error: Unable to initialize main class\nCaused by: x\n", "Error: Unable to initialize main class"),
        ('a\nException in thread "main" java.lang.Oops: no\n\tat x\n', 'Exception in thread "main" java.lang.Oops: no'),
        (
            ":: x\n\t:: y: unresolved dependency: a#b;1: not found\nException in",
            "unresolved dependency: a#b;1: not found",
        ),
    ],
)
def test_the_reason_of_a_failure(said: str, reason: str) -> None:
    assert _reason(said) == reason


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_output_is_kept_up_to_the_mark_and_passed_on_after_it(capfd: pytest.CaptureFixture[str], size: int) -> None:
    output: Any = _Output()
    text = f"noise\nnoise without an end {output.mark}\n{output.mark}\nafter\nno end".encode()
    with open(output.writing, "wb", buffering=0, closefd=False) as pipe:
        pipe.writelines(text[start : start + size] for start in range(0, len(text), size))
    os.close(output.writing)
    assert output.held() == ""
    assert capfd.readouterr().err == "after\nno end"


def test_output_without_a_mark_is_held() -> None:
    output = _Output()
    with open(output.writing, "wb", buffering=0, closefd=False) as pipe:
        pipe.write(b"one\ntwo\nhalf")
    os.close(output.writing)
    assert output.held() == "one\ntwo\nhalf"
