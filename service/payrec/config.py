"""The settings: environment variables, loaded once, checked whole, passed explicitly."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from payrec.constants import UPLOAD_BYTES_MAX
from payrec.constants.jobs import WORKER_GRACE_SECONDS
from payrec.domain.addresses import Destinations
from payrec.domain.blob_places import DATABASE, BlobPlace
from payrec.errors import ConfigurationError

SECRET_BYTES_MIN: Final = 32
"""Bytes of API_KEY_PEPPER, ENCRYPTION_KEY and JWT_SECRET at least (RFC 7518, section 3.2, for the last)."""

LOOPBACK_CIDRS: Final = "127.0.0.0/8,::1/128"
"""WEBHOOK_ALLOWED_CIDRS in development."""

RATE_LIMIT_MAX: Final = 1_000_000
"""Largest rate that can be set."""


class Config(BaseSettings):
    """Every setting of the service, named as its environment variable in lower case."""

    model_config = SettingsConfigDict(
        extra="ignore",
        hide_input_in_errors=True,
        frozen=True,
        env_ignore_empty=True,  # a chart renders what is not set as an empty variable
    )

    host: str = "127.0.0.1"
    """Address that both ports listen on."""
    port: int = Field(default=8000, ge=0, le=65535)
    internal_port: int = Field(default=9090, ge=0, le=65535)
    """Port of /livez, /readyz and /metrics; never exposed outside."""
    data_dir: Path | None = None
    """Embedded PostgreSQL, generated secrets and spool files."""
    auth_mode: Literal["idp", "both"] = "idp"
    """``both`` takes tokens that are signed with JWT_SECRET as well."""
    deployment_environment: Literal["development", "staging", "production", "test"] = "production"
    database_url: str
    """Connection of the service: a NOINHERIT role that owns nothing."""
    admin_database_url: str | None = None
    """Connection for migrations and provisioning: a CREATEROLE role."""
    bootstrap_database_url: str | None = None
    """Connection of whoever may make roles and databases, for ``payrec bootstrap`` alone."""
    jobs_database_url: str | None = None
    """Direct connection for LISTEN when DATABASE_URL is a pooler."""
    database_pooler: Literal["transaction"] | None = None
    database_pool_size: int = Field(default=10, ge=2, le=100)
    public_base_url: str = ""
    """Where clients reach the service; the default is the address that it listens on. The console's sign-in at the
    identity provider comes back there, so without it there is none."""
    console_enabled: bool = True
    """Whether the console is served at /console."""
    api_key_pepper: SecretStr
    api_key_pepper_previous: SecretStr | None = None
    """The pepper before this one: keys made under it go on working, and move to the new one as they are used."""
    encryption_key: SecretStr
    idp_issuer_url: str | None = None
    idp_token_url: str | None = None
    idp_jwks_url: str | None = None
    idp_client_id: str = "payrec"
    idp_client_secret: SecretStr | None = None
    idp_audience: str = "payrec"
    jwt_secret: SecretStr | None = None
    """Signs and verifies HS256 tokens (RFC 7518, section 3.2); with AUTH_MODE ``both`` alone."""
    jwt_issuer: str = Field(default="payrec", min_length=1)
    jwt_audience: str = Field(default="payrec", min_length=1)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    upload_max_bytes: int = Field(default=UPLOAD_BYTES_MAX, ge=1, le=UPLOAD_BYTES_MAX)
    blob_url: str = DATABASE
    """Where uploads and exports are kept between processes: in the database, or where ``BlobPlace`` says."""
    tenant_provisioner: Literal["database", "kubernetes"] = "database"
    """``kubernetes``: ``POST /tenants`` makes a Tenant resource, and the operator the tenant."""
    kubernetes_service_host: str | None = None
    """Address of the API server; every pod has this variable and the next."""
    kubernetes_service_port: int = Field(default=443, ge=1, le=65535)
    service_account_dir: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    """Where a pod has its service account's token, the API server's CA, and the namespace."""
    worker_grace_seconds: int = Field(default=WORKER_GRACE_SECONDS, ge=1, le=3_600)
    """How long jobs may go on when a worker is asked to end; whoever started it kills it later than that."""
    webhook_allowed_cidrs: str | None = None
    """Networks, separated by commas, that webhooks may be sent to and data sources pulled from though they are not
    public, also without TLS."""
    source_secrets_dir: Path | None = None
    """Where secrets of data sources are mounted, below a directory for each tenant's slug."""
    trusted_proxies: str = ""
    """Addresses or networks, separated by commas, whose X-Forwarded-For is believed."""
    rate_limit_principal_per_second: int = Field(default=500, ge=0, le=RATE_LIMIT_MAX)
    """Requests of one user or API key; 0 switches this limit off, and each of the following."""
    rate_limit_tenant_per_second: int = Field(default=2_000, ge=0, le=RATE_LIMIT_MAX)
    """Requests of one tenant environment."""
    rate_limit_uploads_per_minute: int = Field(default=60, ge=0, le=RATE_LIMIT_MAX)
    """Uploads of one tenant environment."""
    rate_limit_token_per_username_per_minute: int = Field(default=10, ge=0, le=RATE_LIMIT_MAX)
    """Attempts at ``/auth/token`` for one username."""
    rate_limit_token_per_address_per_minute: int = Field(default=60, ge=0, le=RATE_LIMIT_MAX)
    """Attempts at ``/auth/token`` from one client address."""
    rate_limit_replicas: int = Field(default=1, ge=1, le=1_000)
    """Processes among which requests are spread; each enforces its share. ``/auth/token`` is counted for all."""

    @field_validator("api_key_pepper", "api_key_pepper_previous", "encryption_key", "jwt_secret")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value().encode()) < SECRET_BYTES_MIN:
            raise ValueError(f"must be at least {SECRET_BYTES_MIN} bytes")
        return value

    @field_validator("database_url", "admin_database_url", "jobs_database_url", "bootstrap_database_url")
    @classmethod
    def _connection_url(cls, value: str | None) -> str | None:
        try:
            is_url = value is None or (urlsplit(value).scheme in {"postgresql", "postgres"} and conninfo_to_dict(value))
        except (ValueError, psycopg.ProgrammingError):
            is_url = False
        if not is_url:
            raise ValueError("must be a connection URL: postgresql://user:password@host/database")
        return value

    # Requests are made of these, and compared with them: one that is no address would fail each of them, not the start.
    @field_validator("public_base_url", "idp_issuer_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value and (not _is_address(value) or "?" in value):
            raise ValueError("must be an address: https://host/path, without user, query and fragment")
        return value

    @field_validator("idp_token_url", "idp_jwks_url")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        # An endpoint may have a query (RFC 6749 section 3.2), by which some providers know which policy is meant.
        if value and not _is_address(value):
            raise ValueError("must be an address: https://host/path, without user and fragment")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: str) -> str:
        for part in filter(None, (p.strip() for p in value.split(","))):
            ipaddress.ip_network(part, strict=False)
        return value

    @field_validator("webhook_allowed_cidrs")
    @classmethod
    def _destinations(cls, value: str | None) -> str | None:
        Destinations.of(value or "")
        return value

    @field_validator("blob_url")
    @classmethod
    def _place(cls, value: str) -> str:
        BlobPlace.of(value)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.idp_issuer_url is None and self.deployment_environment != "development":
            raise ValueError("IDP_ISSUER_URL is required unless DEPLOYMENT_ENVIRONMENT is development")
        for url in (self.idp_issuer_url, self.idp_token_url, self.idp_jwks_url):
            if url and urlsplit(url).scheme != "https" and self.deployment_environment != "development":
                raise ValueError("IDP_ISSUER_URL, IDP_TOKEN_URL and IDP_JWKS_URL must be https outside development")
        if self.idp_issuer_url is not None and self.idp_client_secret is None:
            raise ValueError("IDP_CLIENT_SECRET is required with IDP_ISSUER_URL")
        if self.auth_mode == "both" and self.jwt_secret is None:
            raise ValueError("JWT_SECRET is required with AUTH_MODE both")
        if self.auth_mode == "both" and self.jwt_issuer == self.idp_issuer_url:
            raise ValueError("JWT_ISSUER must not be IDP_ISSUER_URL: a token is of one issuer alone")
        return self

    @property
    def is_development(self) -> bool:
        """The server's own setting decides; no header of a request ever does."""
        return self.deployment_environment == "development"

    @property
    def embeds_identity_provider(self) -> bool:
        """Development without an identity provider: the embedded one is served at /idp."""
        return self.is_development and self.idp_issuer_url is None

    @property
    def webhook_destinations(self) -> Destinations:
        """What may be connected to for a tenant; in development also this machine, unless set otherwise."""
        given = self.webhook_allowed_cidrs
        return Destinations.of(given if given is not None else LOOPBACK_CIDRS if self.is_development else "")

    @property
    def base_url(self) -> str:
        """Where clients reach the service, without a slash at the end."""
        return (self.public_base_url or self.loopback_url).rstrip("/")

    @property
    def loopback_url(self) -> str:
        """Where this process reaches itself."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::", ""} else self.host  # noqa: S104 - compared, not bound
        return f"http://{host}:{self.port}"


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    # urlsplit leaves out line ends, and takes blanks for a part of the host.
    is_one_word = text.split() == [text]
    is_bare = parts.username is None and not parts.fragment
    return parts.scheme in {"http", "https"} and has_host and is_one_word and is_bare


def load_config(**overrides: Any) -> Config:
    """Load the settings from the environment.

    Raises
    ------
    ConfigurationError
        With one line that names the variable that is missing or wrong.
    """
    try:
        return Config(**overrides)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = str(first["loc"][0]).upper() if first["loc"] else ""
        if first["type"] == "missing":
            message = f"{name} is not set"
        else:
            # Pydantic's words speak of an input, of which nobody who sets a variable knows.
            told = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            message = f"{name} {told}".strip()
        raise ConfigurationError(message) from None
