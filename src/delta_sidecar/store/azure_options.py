"""The options of Azure stores."""

from __future__ import annotations

from delta_sidecar.store.option_names import StorageOption

AZURE_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption("account_name", "The storage account.", names=("azure_storage_account_name",)),
    StorageOption(
        "account_key",
        "The account's key.",
        names=(
            "azure_storage_account_key",
            "azure_storage_access_key",
            "azure_storage_master_key",
            "access_key",
            "master_key",
        ),
        secret=True,
    ),
    StorageOption(
        "sas_key",
        "A shared access signature, percent-encoded as the portal shows it.",
        names=("azure_storage_sas_key", "azure_storage_sas_token", "sas_token"),
        secret=True,
    ),
    StorageOption(
        "connection_string",
        "A connection string, with a key, a signature or UseDevelopmentStorage=true.",
        names=("azure_storage_connection_string",),
        secret=True,
    ),
    StorageOption("token", "A bearer token.", names=("azure_storage_token", "bearer_token"), secret=True),
    StorageOption(
        "tenant_id",
        "The tenant of a service principal.",
        names=(
            "azure_storage_tenant_id",
            "azure_storage_authority_id",
            "azure_tenant_id",
            "azure_authority_id",
            "authority_id",
        ),
    ),
    StorageOption(
        "client_id",
        "The id of a service principal or managed identity.",
        names=("azure_storage_client_id", "azure_client_id"),
    ),
    StorageOption(
        "client_secret",
        "The secret of a service principal.",
        names=("azure_storage_client_secret", "azure_client_secret"),
        secret=True,
    ),
    StorageOption(
        "client_certificate_path",
        "The certificate of a service principal, a PEM or PKCS12 file; needs the extra `azure`.",
        names=("azure_client_certificate_path",),
    ),
    StorageOption(
        "client_certificate_password",
        "The password of that file.",
        names=("azure_client_certificate_password",),
        secret=True,
    ),
    StorageOption(
        "authority_host",
        "Where tokens are asked for.",
        default="https://login.microsoftonline.com",
        names=("azure_storage_authority_host", "azure_authority_host"),
    ),
    StorageOption(
        "federated_token_file",
        "The token file of a workload identity.",
        names=("azure_federated_token_file",),
    ),
    StorageOption(
        "msi_endpoint",
        "Where a managed identity's token is asked for.",
        names=("azure_msi_endpoint", "azure_identity_endpoint", "identity_endpoint"),
    ),
    StorageOption("object_id", "The object id of a managed identity.", names=("azure_object_id",)),
    StorageOption("msi_resource_id", "The resource id of a managed identity.", names=("azure_msi_resource_id",)),
    StorageOption("use_azure_cli", "Use the login of the Azure CLI.", names=("azure_use_azure_cli",), type="flag"),
    StorageOption("skip_signature", "Read a public container.", names=("azure_skip_signature",), type="flag"),
    StorageOption(
        "credential_type",
        "Which credentials to use: see above.",
        default="the first one found",
        names=("azure_credential_type",),
    ),
    StorageOption(
        "endpoint",
        "The blob service's address; http:// is allowed only where this says so.",
        default="https://{account}.blob.core.windows.net",
        names=("azure_storage_endpoint", "azure_endpoint"),
    ),
    StorageOption(
        "use_emulator",
        "Use an emulator on 127.0.0.1:10000.",
        names=("azure_storage_use_emulator",),
        type="flag",
    ),
    StorageOption(
        "use_fabric_endpoint",
        "The account is OneLake's.",
        names=("azure_use_fabric_endpoint",),
        type="flag",
    ),
    StorageOption(
        "fabric_token_service_url",
        "Where a notebook of Fabric asks for tokens.",
        names=("azure_fabric_token_service_url",),
    ),
    StorageOption("fabric_workload_host", "The host of its workload.", names=("azure_fabric_workload_host",)),
    StorageOption(
        "fabric_session_token",
        "The token of its session.",
        names=("azure_fabric_session_token",),
        secret=True,
    ),
    StorageOption("fabric_cluster_identifier", "The name of its cluster.", names=("azure_fabric_cluster_identifier",)),
    StorageOption("disable_tagging", "Write no tags.", names=("azure_disable_tagging",), type="flag"),
    StorageOption(
        "encryption_key",
        "A customer-provided encryption key, base64.",
        names=("azure_encryption_key", "azure_storage_encryption_key"),
        secret=True,
    ),
)
"""The options of Azure stores."""
