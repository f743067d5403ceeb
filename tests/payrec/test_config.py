"""Settings: each that is missing or contradicts another is named in one line."""

from __future__ import annotations

import os
from ipaddress import ip_address

import pytest

from payrec.config import Config, load_config
from payrec.errors import ConfigurationError

PRODUCTION = {
    "DATABASE_URL": "postgresql://payrec_service@db/payrec",
    "API_KEY_PEPPER": "p" * 32,
    "ENCRYPTION_KEY": "e" * 32,
    "IDP_ISSUER_URL": "https://idp.example/realms/payrec",
    "IDP_CLIENT_SECRET": "s",
}
DEVELOPMENT = {name: PRODUCTION[name] for name in ("DATABASE_URL", "API_KEY_PEPPER", "ENCRYPTION_KEY")} | {
    "DEPLOYMENT_ENVIRONMENT": "development"
}

BOTH = {"AUTH_MODE": "both", "JWT_SECRET": "s" * 32}
RATES = (
    "RATE_LIMIT_PRINCIPAL_PER_SECOND",
    "RATE_LIMIT_TENANT_PER_SECOND",
    "RATE_LIMIT_UPLOADS_PER_MINUTE",
    "RATE_LIMIT_TOKEN_PER_USERNAME_PER_MINUTE",
    "RATE_LIMIT_TOKEN_PER_ADDRESS_PER_MINUTE",
)


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Config.model_fields:
        for variable in [v for v in os.environ if v.lower() == name]:
            monkeypatch.delenv(variable)


def _load(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> Config:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return load_config()


def test_a_production_service_starts_with_five_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _load(monkeypatch, PRODUCTION)

    assert not config.is_development
    assert not config.embeds_identity_provider
    assert (config.port, config.internal_port, config.log_format) == (8000, 9090, "auto")


def test_development_without_an_issuer_embeds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _load(monkeypatch, DEVELOPMENT).embeds_identity_provider


@pytest.mark.parametrize("missing", ["DATABASE_URL", "API_KEY_PEPPER", "ENCRYPTION_KEY"])
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_setting_is_named_and_an_empty_one_is_missing(
    monkeypatch: pytest.MonkeyPatch, missing: str, value: str | None
) -> None:
    settings = {name: text for name, text in PRODUCTION.items() if name != missing}
    if value is not None:
        settings[missing] = value
    with pytest.raises(ConfigurationError) as caught:
        _load(monkeypatch, settings)

    assert caught.value.detail == f"{missing} is not set"


@pytest.mark.parametrize("name", ["IDP_TOKEN_URL", "IDP_JWKS_URL"])
def test_an_endpoint_of_the_provider_may_have_a_query(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    address = "https://idp.example/oauth2/v2.0?p=policy"
    assert getattr(_load(monkeypatch, {**PRODUCTION, name: address}), name.lower()) == address


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"API_KEY_PEPPER": "short"}, "API_KEY_PEPPER must be at least 32 bytes"),
        ({"DATABASE_URL": "open sesame"}, "DATABASE_URL must be a connection URL: postgresql://"),
        ({"ADMIN_DATABASE_URL": "mysql://root@db/payrec"}, "ADMIN_DATABASE_URL must be a connection URL"),
        ({"JOBS_DATABASE_URL": "postgresql://db/payrec?sllmode=require"}, "JOBS_DATABASE_URL must be a connection URL"),
        ({"WORKER_GRACE_SECONDS": "0"}, "WORKER_GRACE_SECONDS"),
        ({"ENCRYPTION_KEY": "short"}, "ENCRYPTION_KEY must be at least 32 bytes"),
        ({"IDP_ISSUER_URL": ""}, "IDP_ISSUER_URL is required unless DEPLOYMENT_ENVIRONMENT is development"),
        ({"IDP_CLIENT_SECRET": ""}, "IDP_CLIENT_SECRET is required with IDP_ISSUER_URL"),
        ({"IDP_ISSUER_URL": "http://idp"}, "IDP_ISSUER_URL"),
        ({"IDP_TOKEN_URL": "http://idp/token"}, "IDP_TOKEN_URL"),
        ({"IDP_JWKS_URL": "http://idp/jwks"}, "IDP_JWKS_URL"),
        *(
            ({name: address}, f"{name} must be an address: https://host/path")
            for name in ("PUBLIC_BASE_URL", "IDP_ISSUER_URL", "IDP_TOKEN_URL", "IDP_JWKS_URL")
            for address in (
                "payrec.example",
                "https://",
                "https://[",
                "https://h:port/",
                "ftp://h",
                "https://h/#a",
                "https://h i/",
            )
        ),
        *(({name: "https://h/?a=b"}, f"{name} must be an address") for name in ("PUBLIC_BASE_URL", "IDP_ISSUER_URL")),
        *(
            ({"AUTH_MODE": mode}, "AUTH_MODE must be 'idp' or 'both'")
            for mode in ("jwt", "none", "BOTH", "idp,both", "0", " both")
        ),
        ({"AUTH_MODE": "both"}, "JWT_SECRET is required with AUTH_MODE both"),
        ({"AUTH_MODE": "both", "JWT_SECRET": ""}, "JWT_SECRET is required with AUTH_MODE both"),
        ({"AUTH_MODE": "both", "JWT_SECRET": "s" * 31}, "JWT_SECRET must be at least 32 bytes"),
        ({"JWT_SECRET": "short"}, "JWT_SECRET must be at least 32 bytes"),
        (BOTH | {"JWT_ISSUER": PRODUCTION["IDP_ISSUER_URL"]}, "JWT_ISSUER must not be IDP_ISSUER_URL"),
        ({"API_KEY_PEPPER_PREVIOUS": "short"}, "API_KEY_PEPPER_PREVIOUS must be at least 32 bytes"),
        *(({rate: value}, f"{rate} ") for rate in RATES for value in ("-1", "1.5", "many", "1000001")),
        *(({"RATE_LIMIT_REPLICAS": value}, "RATE_LIMIT_REPLICAS ") for value in ("0", "-1", "1001")),
        ({"DEPLOYMENT_ENVIRONMENT": "prod"}, "DEPLOYMENT_ENVIRONMENT"),
        ({"PORT": "http"}, "PORT"),
        ({"PORT": "65536"}, "PORT"),
        ({"INTERNAL_PORT": "-1"}, "INTERNAL_PORT"),
        ({"DATABASE_POOLER": "session"}, "DATABASE_POOLER"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
        ({"TENANT_PROVISIONER": "helm"}, "TENANT_PROVISIONER"),
        ({"UPLOAD_MAX_BYTES": "0"}, "UPLOAD_MAX_BYTES"),
        ({"TRUSTED_PROXIES": "10.0.0.0/8, nonsense"}, "TRUSTED_PROXIES"),
        ({"WEBHOOK_ALLOWED_CIDRS": "10.0.0.0/8, 10.0.0.0/33"}, "WEBHOOK_ALLOWED_CIDRS"),
        ({"BLOB_URL": "ftp://files/here"}, "BLOB_URL must be postgres, file:///directory, s3://bucket/prefix"),
        ({"BLOB_URL": "file:blobs"}, "BLOB_URL must name a directory by its absolute path"),
    ],
)
def test_a_wrong_or_contradictory_setting_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(monkeypatch, PRODUCTION | changed)

    assert named in caught.value.detail
    assert "\n" not in caught.value.detail


@pytest.mark.parametrize("secret", ["API_KEY_PEPPER", "API_KEY_PEPPER_PREVIOUS", "ENCRYPTION_KEY", "JWT_SECRET"])
def test_an_error_never_quotes_a_secret(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(monkeypatch, PRODUCTION | {secret: "marker-7f3a"})

    assert "marker-7f3a" not in str(caught.value)


def test_credentials_in_the_place_of_files_are_refused_and_never_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(monkeypatch, PRODUCTION | {"BLOB_URL": "s3://key:marker-7f3a@bucket"})

    assert caught.value.detail.startswith("BLOB_URL must be a short URL without user")
    assert "marker-7f3a" not in str(caught.value)


def test_both_kinds_of_tokens_need_one_setting_more(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _load(monkeypatch, PRODUCTION | BOTH)

    assert (config.auth_mode, config.jwt_issuer, config.jwt_audience) == ("both", "payrec", "payrec")


def test_an_issuer_that_nobody_compares_with_may_be_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _load(monkeypatch, PRODUCTION | {"JWT_ISSUER": PRODUCTION["IDP_ISSUER_URL"]}).auth_mode == "idp"


def test_rates_have_defaults_and_may_be_0(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _load(monkeypatch, PRODUCTION)
    assert [getattr(config, rate.lower()) for rate in RATES] == [500, 2_000, 60, 10, 60]
    assert config.rate_limit_replicas == 1

    config = _load(monkeypatch, dict.fromkeys(RATES, "0"))
    assert [getattr(config, rate.lower()) for rate in RATES] == [0] * 5


def test_an_http_issuer_is_allowed_in_development_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _load(monkeypatch, DEVELOPMENT | {"IDP_ISSUER_URL": "http://localhost:8080", "IDP_CLIENT_SECRET": "s"})

    assert not config.embeds_identity_provider


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - compared, not bound
def test_a_process_that_listens_everywhere_reaches_itself_by_loopback(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    config = _load(monkeypatch, DEVELOPMENT | {"HOST": host, "PORT": "8123", "PUBLIC_BASE_URL": "https://pay.example/"})

    assert config.loopback_url == "http://127.0.0.1:8123"
    assert config.base_url == "https://pay.example"


@pytest.mark.parametrize(
    ("changed", "loopback", "cluster"),
    [
        ({}, False, False),
        ({"WEBHOOK_ALLOWED_CIDRS": "10.0.0.0/8"}, False, True),
        ({"DEPLOYMENT_ENVIRONMENT": "development"}, True, False),
        ({"DEPLOYMENT_ENVIRONMENT": "development", "WEBHOOK_ALLOWED_CIDRS": "10.0.0.0/8"}, False, True),
    ],
)
def test_webhooks_reach_this_machine_in_development_alone_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    loopback: bool,  # noqa: FBT001 - a parameter of the test
    cluster: bool,  # noqa: FBT001 - the same
) -> None:
    destinations = _load(monkeypatch, PRODUCTION | changed).webhook_destinations
    for address, wanted in (("127.0.0.1", loopback), ("::1", loopback), ("10.1.2.3", cluster), ("192.168.1.1", False)):
        assert destinations.admits(ip_address(address), is_encrypted=False) == wanted
