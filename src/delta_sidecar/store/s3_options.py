"""The options of S3 stores."""

from __future__ import annotations

from delta_sidecar.store.option_names import StorageOption

S3_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption("access_key_id", "The id of an access key.", names=("aws_access_key_id",), secret=True),
    StorageOption("secret_access_key", "The access key's secret.", names=("aws_secret_access_key",), secret=True),
    StorageOption(
        "session_token",
        "The token of a temporary access key.",
        names=("aws_session_token", "token"),
        secret=True,
    ),
    StorageOption(
        "region",
        "The bucket's region.",
        default="us-east-1",
        names=("aws_region", "aws_default_region", "default_region"),
    ),
    StorageOption(
        "endpoint",
        "The address of a service other than Amazon's; http:// is allowed only where this says so.",
        names=("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url"),
    ),
    StorageOption(
        "virtual_hosted_style_request",
        "The bucket is a part of the endpoint's host, not of the path.",
        names=("aws_virtual_hosted_style_request",),
        type="flag",
    ),
    StorageOption("skip_signature", "Read a public bucket.", names=("aws_skip_signature",), type="flag"),
    StorageOption(
        "web_identity_token_file",
        "The token file of a web identity, as in Kubernetes.",
        names=("aws_web_identity_token_file",),
    ),
    StorageOption("role_arn", "The role that a web identity takes on.", names=("aws_role_arn",)),
    StorageOption("role_session_name", "The name of its session.", names=("aws_role_session_name",)),
    StorageOption(
        "endpoint_url_sts",
        "Where a web identity's token is exchanged.",
        names=("aws_endpoint_url_sts",),
    ),
    StorageOption(
        "container_credentials_relative_uri",
        "Where a container asks for its credentials, as in ECS.",
        names=("aws_container_credentials_relative_uri",),
    ),
    StorageOption(
        "container_credentials_full_uri",
        "Where a container asks for its credentials, as in EKS.",
        names=("aws_container_credentials_full_uri",),
    ),
    StorageOption(
        "container_authorization_token_file",
        "The token file that it shows there.",
        names=("aws_container_authorization_token_file",),
    ),
    StorageOption(
        "metadata_endpoint",
        "Where a machine asks for its instance's credentials.",
        default="http://169.254.169.254",
        names=("aws_metadata_endpoint",),
    ),
    StorageOption(
        "imdsv1_fallback",
        "Ask there by the first version of the protocol if the second is refused.",
        names=("aws_imdsv1_fallback",),
        type="flag",
    ),
    StorageOption("request_payer", "Pay for requests to a bucket of others.", names=("aws_request_payer",)),
    StorageOption("s3_express", "The bucket is one of S3 Express.", names=("aws_s3_express",), type="flag"),
    StorageOption(
        "conditional_put",
        "How an object is created only where there is none.",
        default="etag",
        names=("aws_conditional_put",),
    ),
    StorageOption("disable_tagging", "Write no tags.", names=("aws_disable_tagging",), type="flag"),
    StorageOption(
        "disable_bulk_delete",
        "Delete objects one by one.",
        names=("aws_disable_bulk_delete",),
        type="flag",
    ),
    StorageOption("checksum_algorithm", "How what is written is checked.", names=("aws_checksum_algorithm",)),
    StorageOption(
        "unsigned_payload",
        "Leave what is written out of the signature.",
        names=("aws_unsigned_payload",),
        type="flag",
    ),
    StorageOption(
        "server_side_encryption",
        "How what is written is encrypted.",
        names=("aws_server_side_encryption",),
    ),
    StorageOption("sse_kms_key_id", "The key of the key service to encrypt with.", names=("aws_sse_kms_key_id",)),
    StorageOption(
        "sse_bucket_key_enabled",
        "Encrypt with a key of the bucket.",
        names=("aws_sse_bucket_key_enabled",),
        type="flag",
    ),
    StorageOption(
        "sse_customer_key_base64",
        "A customer-provided encryption key, base64.",
        names=("aws_sse_customer_key_base64",),
        secret=True,
    ),
)
"""The options of S3 stores."""
