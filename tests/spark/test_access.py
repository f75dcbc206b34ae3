"""How Spark reaches a table: addresses in Hadoop's words, credentials in Hadoop's configuration and nowhere else."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.spark.access import grant, hadoop_configuration, hadoop_settings, hadoop_url, spark_path
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.azurite import Azurite
    from tests.spark.conftest import Lake

KEY = "c2VjcmV0LWtleS1vZi1hbi1hY2NvdW50"
SAS = "sv=2018-11-09&sp=rl&sig=c2lnbmF0dXJl%3D"
HOST = "acct.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("address", "options", "url"),
    [
        ("abfss://lake@acct.dfs.core.windows.net/a/t", {}, "abfss://lake@acct.dfs.core.windows.net/a/t"),
        ("abfs://lake@acct.blob.core.windows.net/t", {}, "abfss://lake@acct.dfs.core.windows.net/t"),
        ("abfss://lake@acct.dfs.core.windows.net", {}, "abfss://lake@acct.dfs.core.windows.net"),
        ("az://lake/t", {"account_name": "acct"}, "abfss://lake@acct.dfs.core.windows.net/t"),
        ("az://lake/t%20u", {"AZURE_STORAGE_ACCOUNT_NAME": "acct"}, "abfss://lake@acct.dfs.core.windows.net/t u"),
        (f"https://acct.blob.core.windows.net/lake/t?{SAS}", {}, "abfss://lake@acct.dfs.core.windows.net/t"),
        ("https://acct.z01.blob.storage.azure.net/lake/t", {}, "abfss://lake@acct.z01.dfs.storage.azure.net/t"),
        ("abfss://lake@acct.dfs.core.chinacloudapi.cn/t", {}, "abfss://lake@acct.dfs.core.chinacloudapi.cn/t"),
        ("abfss://ws@onelake.dfs.fabric.microsoft.com/i/t", {}, "abfss://ws@onelake.dfs.fabric.microsoft.com/i/t"),
        ("az://lake/t", {"use_emulator": "true"}, "abfs://lake@devstoreaccount1.dfs.core.windows.net/t"),
        (
            "az://lake/t",
            {"connection_string": f"AccountName=acct;AccountKey={KEY};EndpointSuffix=core.usgovcloudapi.net"},
            "abfss://lake@acct.dfs.core.usgovcloudapi.net/t",
        ),
        ("http://127.0.0.1:10000/devstoreaccount1/lake/t", {}, "abfs://lake@devstoreaccount1.dfs.core.windows.net/t"),
        ("https://127.0.0.1:10000/dev/lake/t", {}, "abfss://lake@dev.dfs.core.windows.net/t"),
        ("s3://bucket/a/t", {}, "s3a://bucket/a/t"),
        ("s3a://bucket", {}, "s3a://bucket"),
        ("gs://bucket/t", {}, "gs://bucket/t"),
        ("/data/a table/100%25/größe", {}, "file:///data/a table/100%25/größe"),
        ("file:///data/a%20table", {}, "file:///data/a table"),
        (Path("/data/t"), {}, "file:///data/t"),
    ],
)
def test_what_spark_calls_a_table(address: str, options: dict[str, str], url: str) -> None:
    assert hadoop_url(address, options) == url


@pytest.mark.parametrize(
    ("address", "options", "path"),
    [
        ("hdfs://name/progress", {"account_key": KEY}, "hdfs://name/progress"),
        ("dbfs:/progress", {}, "dbfs:/progress"),
        ("/progress", {"account_key": KEY}, "file:///progress"),
        ("s3://bucket/progress", {"account_key": KEY}, "s3a://bucket/progress"),
        ("az://lake/progress", {"ACCOUNT_NAME": "acct", "account_key": KEY}, f"abfss://lake@{HOST}/progress"),
    ],
)
def test_what_spark_calls_a_place_of_its_own(address: str, options: dict[str, str], path: str) -> None:
    assert spark_path(address, options) == path


def test_a_relative_path_is_of_this_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert hadoop_url("t") == f"file://{tmp_path}/t"


@pytest.mark.parametrize(
    ("address", "options", "says"),
    [
        ("memory://store/t", {}, "this process's memory"),
        ("az://lake/t", {}, "does not say which Azure account"),
        ("ftp://host/t", {}, "scheme 'ftp' is not supported"),
        ("/data/t", {"acount_key": "x"}, "unknown storage option"),
    ],
)
def test_addresses_that_are_refused(address: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        hadoop_url(address, options)


PRINCIPAL = {"tenant_id": "tenant", "client_id": "client"}
OAUTH = {f"fs.azure.account.auth.type.{HOST}": "OAuth"}
PROVIDER = f"fs.azure.account.oauth.provider.type.{HOST}"


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (
            {"account_key": KEY},
            {f"fs.azure.account.auth.type.{HOST}": "SharedKey", f"fs.azure.account.key.{HOST}": KEY},
        ),
        (
            {"sas_key": f"?{SAS}"},
            {f"fs.azure.account.auth.type.{HOST}": "SAS", f"fs.azure.sas.fixed.token.{HOST}": SAS},
        ),
        (
            {"connection_string": f"AccountName=acct;AccountKey={KEY}"},
            {f"fs.azure.account.auth.type.{HOST}": "SharedKey", f"fs.azure.account.key.{HOST}": KEY},
        ),
        (
            {**PRINCIPAL, "client_secret": "much too secret"},
            {
                **OAUTH,
                PROVIDER: "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                f"fs.azure.account.oauth2.client.endpoint.{HOST}": (
                    "https://login.microsoftonline.com/tenant/oauth2/token"
                ),
                f"fs.azure.account.oauth2.client.id.{HOST}": "client",
                f"fs.azure.account.oauth2.client.secret.{HOST}": "much too secret",
            },
        ),
        (
            {**PRINCIPAL, "federated_token_file": "/tokens/a", "authority_host": "https://login.example/"},
            {
                **OAUTH,
                PROVIDER: "org.apache.hadoop.fs.azurebfs.oauth2.WorkloadIdentityTokenProvider",
                f"fs.azure.account.oauth2.msi.authority.{HOST}": "https://login.example",
                f"fs.azure.account.oauth2.msi.tenant.{HOST}": "tenant",
                f"fs.azure.account.oauth2.client.id.{HOST}": "client",
                f"fs.azure.account.oauth2.token.file.{HOST}": "/tokens/a",
            },
        ),
        (
            {"credential_type": "managed_identity", "client_id": "client"},
            {
                **OAUTH,
                PROVIDER: "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider",
                f"fs.azure.account.oauth2.client.id.{HOST}": "client",
            },
        ),
        ({}, {}),
        ({"max_concurrent_requests": "3"}, {}),
    ],
)
def test_azure_settings(options: dict[str, str], settings: dict[str, str]) -> None:
    assert hadoop_settings("abfss://lake@acct.dfs.core.windows.net/t", options) == settings


def test_a_signature_in_the_address_is_used() -> None:
    found = hadoop_settings(f"https://acct.blob.core.windows.net/lake/t?{SAS}")
    assert found == {f"fs.azure.account.auth.type.{HOST}": "SAS", f"fs.azure.sas.fixed.token.{HOST}": SAS}


def test_an_emulator_is_reached_by_its_endpoint() -> None:
    host = "devstoreaccount1.dfs.core.windows.net"
    found = hadoop_settings("http://127.0.0.1:1234/devstoreaccount1/lake/t", {"account_key": KEY})
    assert found == {
        f"fs.azure.abfs.endpoint.{host}": "127.0.0.1:1234",
        f"fs.azure.account.hns.enabled.{host}": "false",
        f"fs.azure.fns.account.service.type.{host}": "BLOB",
        f"fs.azure.networking.library.{host}": "JDK_HTTP_URL_CONNECTION",
        f"fs.azure.metrics.collection.enabled.{host}": "false",
        "fs.azure.always.use.https": "false",
        f"fs.azure.account.auth.type.{host}": "SharedKey",
        f"fs.azure.account.key.{host}": KEY,
    }
    secure = hadoop_settings("https://127.0.0.1/devstoreaccount1/lake/t", {"account_key": KEY})
    assert secure[f"fs.azure.abfs.endpoint.{host}"] == "127.0.0.1:443"
    assert "fs.azure.always.use.https" not in secure


def test_the_environment_counts_after_the_call_and_for_its_account_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acct")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert hadoop_settings("az://lake/t")[f"fs.azure.account.key.{HOST}"] == KEY
    assert hadoop_url("az://lake/t") == f"abfss://lake@{HOST}/t"
    called = hadoop_settings("az://lake/t", {"sas_key": SAS})
    assert called == {f"fs.azure.account.auth.type.{HOST}": "SAS", f"fs.azure.sas.fixed.token.{HOST}": SAS}
    assert hadoop_settings("abfss://lake@other.dfs.core.windows.net/t") == {}


def test_without_credentials_the_session_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delta_sidecar.store.clouds.azure.is_installed", lambda: False)
    assert hadoop_settings("abfss://lake@acct.dfs.core.windows.net/t") == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"token": "eyJhbGciOi.much-too.secret"}, "Spark cannot use the bearer token from the storage options"),
        ({"use_azure_cli": "true"}, "Spark cannot use the login of the Azure CLI"),
        ({"credential_type": "default"}, "Spark cannot use azure-identity's DefaultAzureCredential"),
        ({"credential_type": "managed_identity", "object_id": "x"}, "Spark cannot use the managed identity"),
        ({"skip_signature": "true"}, "Spark cannot use no credentials"),
        ({"account_key": KEY, "encryption_key": "bXVjaC10b28tc2VjcmV0"}, "'encryption_key' cannot be handed to Spark"),
    ],
)
def test_azure_credentials_that_hadoop_has_no_use_for_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says) as raised:
        hadoop_settings("abfss://lake@acct.dfs.core.windows.net/t", options)
    assert not any(value in str(raised.value) for value in options.values() if len(value) > 8 and "_" not in value)


S3 = "org.apache.hadoop.fs.s3a"
ACCESS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "much too secret"}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        (
            {**ACCESS, "region": "eu-central-1"},
            {
                "aws.credentials.provider": f"{S3}.SimpleAWSCredentialsProvider",
                "access.key": "AKIDEXAMPLE",
                "secret.key": "much too secret",
                "endpoint.region": "eu-central-1",
            },
        ),
        (
            {**ACCESS, "session_token": "passing", "endpoint": "http://127.0.0.1:5000/"},
            {
                "aws.credentials.provider": f"{S3}.TemporaryAWSCredentialsProvider",
                "access.key": "AKIDEXAMPLE",
                "secret.key": "much too secret",
                "session.token": "passing",
                "endpoint": "http://127.0.0.1:5000",
                "endpoint.region": "us-east-1",
                "path.style.access": "true",
                "connection.ssl.enabled": "false",
            },
        ),
        (
            {"skip_signature": "true", "endpoint": "https://s3.example", "virtual_hosted_style_request": "yes"},
            {
                "aws.credentials.provider": f"{S3}.AnonymousAWSCredentialsProvider",
                "endpoint": "https://s3.example",
                "endpoint.region": "us-east-1",
                "path.style.access": "false",
                "connection.ssl.enabled": "true",
            },
        ),
        ({"request_payer": "true"}, {"requester.pays.enabled": "true"}),
    ],
)
def test_s3_settings_are_of_the_bucket(options: dict[str, str], settings: dict[str, str]) -> None:
    expected = {f"fs.s3a.bucket.lake.{name}": value for name, value in settings.items()}
    assert hadoop_settings("s3://lake/t", options) == expected


@pytest.mark.parametrize(
    "name", ["web_identity_token_file", "server_side_encryption", "sse_kms_key_id", "container_credentials_full_uri"]
)
def test_s3_options_that_hadoop_has_other_names_for_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}' cannot be handed to Spark"):
        hadoop_settings("s3://lake/t", {name: "something"})


def test_identities_of_an_environment_are_left_to_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/tokens/a")
    assert hadoop_settings("s3://lake/t") == {}


@pytest.mark.parametrize("address", ["/data/t", "gs://bucket/t"])
def test_other_stores_need_no_settings(address: str) -> None:
    assert hadoop_settings(address) == {}


def test_odd_names_are_the_same_for_spark_and_our_store(spark: SparkSession, lake: Lake) -> None:
    name = "größe-日本 100%25 of 50% a#b+c=d&e"
    url = lake.new_url(name) if lake.root.startswith("/") else lake.new_url(quote(name))
    table = hadoop_url(url, lake.options)
    spark.range(3).coalesce(1).write.format("delta").save(table)
    assert spark.read.format("delta").load(table).count() == 3
    assert b'"add"' in bytes(open_store(url, lake.options).get("_delta_log/00000000000000000000.json").data)


@pytest.mark.azurite
def test_a_signature_is_enough(spark: SparkSession, azurite: Azurite) -> None:
    """By a host of its own, since a file system keeps the credentials that it was opened with."""
    container = azurite.create_container()
    url = f"{azurite.endpoint}/{container}/t?{azurite.container_sas(container)}"
    grant(spark, url)
    try:
        spark.range(3).coalesce(1).write.format("parquet").save(hadoop_url(url))
        assert spark.read.parquet(hadoop_url(url)).count() == 3
    finally:
        grant(spark, f"{azurite.endpoint}/{container}", azurite.options)


@pytest.mark.azurite
def test_secrets_are_in_hadoops_configuration_alone(
    spark: SparkSession, azure_lake: Lake, azurite: Azurite, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "py4j.clientserver"):
        grant(spark, azure_lake.url("t"), azurite.options)
        grant(spark, "s3://lake/t", {**ACCESS, "session_token": "also secret"})
        grant(spark, "abfss://lake@acct.dfs.core.windows.net/t", {**PRINCIPAL, "client_secret": "most secret"})
        grant(spark, "abfss://lake@acct2.dfs.core.windows.net/t", {"sas_key": SAS})
    secrets = [azurite.key, *ACCESS.values(), "also secret", "most secret", "c2lnbmF0dXJl"]
    assert "fs.s3a.bucket.lake.secret.key" in caplog.text
    held = {entry.getKey(): entry.getValue() for entry in hadoop_configuration(spark).iterator()}
    assert all(any(secret in value for value in held.values()) for secret in secrets)
    settings = dict(spark.sparkContext.getConf().getAll())
    sql = {row["key"]: row["value"] for row in spark.sql("set").collect()}
    commands = [process.read_bytes().decode(errors="replace") for process in processes()]
    assert any("org.apache.spark.deploy.SparkSubmit" in command for command in commands)
    for secret in secrets:
        assert not any(secret in value for value in (*settings.values(), *sql.values(), *commands, caplog.text))
    pattern = re.compile(settings["spark.redaction.regex"])
    for name, value in held.items():
        if any(secret in value for secret in secrets):
            assert pattern.search(name), f"Spark would show the value of {name}"


def processes() -> list[Path]:
    """The command lines of this process's children, grandchildren and so on."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return [path for process in found if (path := Path(f"/proc/{process}/cmdline")).exists()]
