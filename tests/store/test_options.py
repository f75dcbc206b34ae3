from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.store.client import AZURE_OPTIONS, REQUEST_OPTIONS, environment_secrets, options_of
from delta_sidecar.store.options import canonical, from_environment, read_count, read_duration, read_flag

if TYPE_CHECKING:
    from delta_sidecar.store.address import StoreKind

ALL = (*REQUEST_OPTIONS, *AZURE_OPTIONS)


@pytest.mark.parametrize("kind", ["azure", "s3", "gs"])
def test_every_option_is_described_and_no_name_is_used_twice(kind: StoreKind) -> None:
    options = options_of(kind)
    names = [name for option in options for name in (option.key, *option.names)]
    assert len(names) == len(set(names))
    variables = [name for option in options for name in option.environment]
    assert len(variables) == len(set(variables))
    assert all(option.meaning.endswith(".") and option.environment for option in options)


@pytest.mark.parametrize("kind", ["azure", "s3", "gs"])
def test_object_store_knows_every_option_of_a_cloud(kind: StoreKind) -> None:
    from obstore import exceptions, store

    make: Any = {"azure": store.AzureStore, "s3": store.S3Store, "gs": store.GCSStore}[kind]
    # What is taken apart or handed to azure-identity before object_store sees it.
    ours = {"connection_string", "client_certificate_path", "client_certificate_password"}
    for option in options_of(kind)[len(REQUEST_OPTIONS) :]:
        if option.key in ours:
            continue
        with contextlib.suppress(exceptions.GenericError, ValueError):
            make("bucket", config={option.key: "true"})
    with pytest.raises(exceptions.UnknownConfigurationKeyError):
        make("bucket", config={"no_such_option": "true"})


def test_the_tables_hold_what_object_store_reads_from_the_environment() -> None:
    variables = {name for option in options_of("s3") for name in option.environment}
    assert variables >= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"}
    assert variables >= {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ALLOW_HTTP", "AWS_ROLE_ARN"}
    variables = {name for option in options_of("gs") for name in option.environment}
    assert variables >= {"GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"}


def test_secrets_of_the_environment() -> None:
    environment = {
        "AZURE_CLIENT_SECRET": "one",
        "AWS_SECRET_ACCESS_KEY": "two",
        "GOOGLE_SERVICE_ACCOUNT_KEY": "three",
        "IDENTITY_HEADER": "four",
        "AZURE_STORAGE_ACCOUNT_NAME": "public",
        "AWS_SESSION_TOKEN": "",
    }
    assert environment_secrets(environment) == {"one", "two", "three", "four"}


@pytest.mark.parametrize(
    "name",
    [
        *("account_name", "ACCOUNT_NAME", "azure_storage_account_name", "AZURE_STORAGE_ACCOUNT_NAME"),
        "Azure_Storage_Account_Name",
    ],
)
def test_names_are_taken_in_either_case(name: str) -> None:
    assert canonical({name: "acct"}, ALL) == {"account_name": "acct"}


def test_other_names_of_an_option() -> None:
    known = canonical({"sas_token": "s", "ACCESS_KEY": "k", "bearer_token": "t", "max_retries": "1"}, ALL)
    assert known == {"sas_key": "s", "account_key": "k", "token": "t", "retry_max_retries": "1"}


def test_values_may_be_numbers_and_truth_values() -> None:
    given: dict[str, object] = {"timeout": 30, "use_azure_cli": True, "skip_signature": False}
    known = canonical(given, ALL)  # type: ignore[arg-type]
    assert known == {"timeout": "30", "use_azure_cli": "true", "skip_signature": "false"}


def test_an_unknown_name_is_refused_with_the_nearest_one_and_without_its_value() -> None:
    with pytest.raises(OptionError, match="'acount_key'; did you mean 'account_key'") as caught:
        canonical({"acount_key": "SECRET"}, ALL)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(OptionError, match=r"'zzzzz'; known are account_key, .*timeout"):
        canonical({"zzzzz": "SECRET"}, ALL)


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_S3_ALLOW_UNSAFE_RENAME", "aws_s3_locking_provider", "DELTA_DYNAMO_TABLE_NAME", "allow_unsafe_rename"),
        *("copy_if_not_exists", "MOUNT_ALLOW_UNSAFE_RENAME", "OBJECT_STORE_CONCURRENCY_LIMIT"),
        *("AWS_FORCE_CREDENTIAL_LOAD", "backoff_config.init_backoff", "AWS_SECRET_ACCESS_KEY_DYNAMODB"),
        *("AWS_PROFILE", "AWS_IAM_ROLE_ARN", "aws_s3_assume_role_arn", "AWS_S3_ROLE_SESSION_NAME"),
        *("AWS_S3_ADDRESSING_STYLE", "AWS_S3_POOL_IDLE_TIMEOUT_SECONDS", "AWS_STS_POOL_IDLE_TIMEOUT_SECONDS"),
        *("AWS_S3_GET_INTERNAL_SERVER_ERROR_RETRIES", "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_TIMEOUT"),
        *("concurrency_limit", "aws_bucket", "azure_container_name", "google_bucket"),
    ],
)
def test_what_only_deltalake_has_a_use_for_is_passed_over(name: str) -> None:
    assert canonical({name: "true", "account_name": "acct"}, ALL) == {"account_name": "acct"}


def test_two_names_of_one_option_must_agree() -> None:
    assert canonical({"sas_key": "s", "SAS_TOKEN": "s"}, ALL) == {"sas_key": "s"}
    with pytest.raises(OptionError, match="'sas_key' is given twice") as caught:
        canonical({"sas_key": "SECRET1", "SAS_TOKEN": "SECRET2"}, ALL)
    assert "SECRET" not in str(caught.value)


def test_the_environment() -> None:
    environment = {
        "AZURE_STORAGE_ACCOUNT_NAME": "acct",
        "AZURE_STORAGE_SAS_TOKEN": "s",
        "AZURE_STORAGE_ACCOUNT_KEY": "",
        "DELTA_SIDECAR_MAX_CONCURRENT_REQUESTS": "7",
        "DELTA_SIDECAR_ACCOUNT_NAME": "not a variable",
        "account_name": "not a variable either",
    }
    assert from_environment(environment, ALL) == {
        "account_name": "acct",
        "sas_key": "s",
        "max_concurrent_requests": "7",
    }


def test_values() -> None:
    assert [read_flag("x", word) for word in ("true", "TRUE", "1", "false", "0", "")] == [True] * 3 + [False] * 3
    assert read_count("x", " 12 ") == 12
    assert read_duration("x", "500ms") == timedelta(milliseconds=500)
    assert read_duration("x", "1.5 s") == timedelta(seconds=1.5)
    assert read_duration("x", "2min") == timedelta(minutes=2)
    assert read_duration("x", "30") == timedelta(seconds=30)


def test_bad_values_name_their_option() -> None:
    with pytest.raises(OptionError, match="'use_emulator' must be true or false"):
        read_flag("use_emulator", "maybe")
    for bad in ("-1", "x", "1.5", ""):
        with pytest.raises(OptionError, match="'retry_max_retries' must be a whole number"):
            read_count("retry_max_retries", bad)
    with pytest.raises(OptionError, match="at least 1"):
        read_count("max_concurrent_requests", "0", least=1)
    for bad in ("-1s", "soon", "5 parsecs", ""):
        with pytest.raises(OptionError, match="'timeout' must be a length of time"):
            read_duration("timeout", bad)
