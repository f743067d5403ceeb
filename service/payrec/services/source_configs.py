"""Whether a data source can be what somebody says that it is: its config, its secret and its schedule together."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from payrec.constants.fx_rates import ECB_DAILY_URL
from payrec.domain.addresses import Destinations, UrlRefusedError, check_host, literal_address
from payrec.domain.schedules import ScheduleError, next_after
from payrec.domain.scope import TenantScope
from payrec.errors import FieldError, UrlNotAllowedError, ValidationFailedError
from payrec.models.data_sources import CONFIGS, PLACES, SECRETS, KeptConfig, PulledConfig
from payrec.services.source_secrets import SecretRefError, SourceSecrets, servers
from payrec.services.validation import validated

_CREDENTIAL: Final = re.compile(
    r"(^|[-_.])(access[-_]?key|api[-_]?key|auth|credential|key|passwd|password|pwd|secret|sig|signature|token)",
    re.IGNORECASE,
)
"""Parameters of an address that are credentials."""


RATES_FORMAT: Final = "ecb_fx_rates"
"""The format of sources that bring exchange rates."""


class SourceConfigs:
    """Checks what is said of a data source that is pulled."""

    def __init__(self, *, secrets: SourceSecrets, destinations: Destinations) -> None:
        self._secrets = secrets
        self._destinations = destinations

    def checked(
        self, scope: TenantScope, row: dict[str, Any], *, secret: dict[str, str] | None, has_secret: bool
    ) -> dict[str, Any]:
        """Return the config of a data source as it is stored.

        ``row`` has what a source has of its own; ``secret`` is one that is given now, and
        ``has_secret`` says whether there is one then, given now or before.

        Raises
        ------
        ValidationFailedError, UrlNotAllowedError
        """
        if row["format"] == RATES_FORMAT:
            row = _of_rates(row)
        if row["kind"] == "upload":
            given = [name for name in ("config", "schedule") if row[name]]
            given += ["secretRef"] if row["secret_ref"] is not None else []
            given += ["secret"] if has_secret else []
            if given:
                detail = "is for sources that are pulled"
                raise ValidationFailedError.of(
                    *(FieldError(pointer=f"/{name}", code="not_for_uploads", detail=detail) for name in given)
                )
            return {}
        config = validated(CONFIGS[row["kind"]], row["config"], pointer="/config")
        self._check_addresses(row["kind"], config)
        if isinstance(config, KeptConfig) and (config.after_read == "move") != (config.move_to is not None):
            raise _wrong("/config/moveTo", "move_to_required", "is needed for `afterRead` `move`, and for nothing else")
        self._check_secret(scope, row, config, secret, has_secret=has_secret)
        return _stored(config)

    def _check_addresses(self, kind: str, config: Any) -> None:
        if kind == "sftp":
            try:
                check_host(config.host.lower())
                literal = literal_address(config.host.lower())
            except UrlRefusedError as error:
                raise _wrong("/config/host", error.code, error.detail) from None
            if literal is not None and not self._destinations.admits(literal, is_encrypted=True):
                raise _refused("/config/host", "address_refused", "names an address that nothing is read from")
            return
        urls = {f"/config/urls/{n}": url for n, url in enumerate(config.urls)} if kind == "http" else {}
        if getattr(config, "endpoint", None) is not None:
            urls["/config/endpoint"] = config.endpoint
        for pointer, url in urls.items():
            try:
                self._destinations.check_url(url)
            except UrlRefusedError as error:
                if error.code in {"address_refused", "scheme_refused"}:
                    raise _refused(pointer, error.code, error.detail) from None
                raise _wrong(pointer, error.code, error.detail) from None
            query = urlsplit(url).query
            if any(_CREDENTIAL.search(name) for name, _ in parse_qsl(query, keep_blank_values=True)):
                raise _wrong(pointer, "credentials_refused", "must not have credentials; they belong into `secret`")

    def _check_secret(
        self,
        scope: TenantScope,
        row: dict[str, Any],
        config: Any,
        secret: dict[str, str] | None,
        *,
        has_secret: bool,
    ) -> None:
        kind, reference = row["kind"], row["secret_ref"]
        if has_secret and reference is not None:
            raise _wrong("/secretRef", "secret_once", "is instead of `secret`")
        is_anonymous = getattr(config, "anonymous", False)
        if is_anonymous and (has_secret or reference is not None):
            raise _wrong("/config/anonymous", "secret_once", "is instead of a secret")
        if not (is_anonymous or has_secret or reference is not None or kind == "http"):
            raise _wrong("/secret", "required", "is needed for this kind, or `secretRef`")
        pointer = "/secret"
        if reference is not None:
            pointer = "/secretRef"
            try:
                secret = self._secrets.mounted(scope.slug, reference, servers(kind, _stored(config)))
            except SecretRefError as error:
                raise _wrong(pointer, error.code, error.detail) from None
        if secret is None:
            return
        if frozenset(secret) not in SECRETS[kind]:
            known = " or ".join(" and ".join(f"`{name}`" for name in sorted(names)) for names in SECRETS[kind])
            raise _wrong(pointer, "secret_members", f"must have {known}")
        if kind == "gcs" and not _is_service_account(secret["serviceAccountKey"]):
            raise _wrong(pointer, "secret_malformed", "must have the JSON key of a service account")


def _of_rates(row: dict[str, Any]) -> dict[str, Any]:
    """Return a source of exchange rates with what its config leaves out; raises ``ValidationFailedError``."""
    if row["kind"] == "upload":
        raise _wrong("/kind", "pulled_only", "of exchange rates is one that is pulled; files go to /fx-rates/upload")
    given = [name for name in ("account", "profile") if row[name]]
    if given:
        raise _wrong(f"/{given[0]}", "not_for_rates", "is for sources of transactions")
    if row["kind"] == "http":
        return {**row, "config": {"urls": [ECB_DAILY_URL], **row["config"]}}
    return row


def needs_secret_again(kind: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Tell whether a stored secret would be shown to somebody whom it was not given for."""
    model = CONFIGS[kind]
    old, new = (cast("Any", model.model_validate(config)) for config in (before, after))
    return any(getattr(old, name) != getattr(new, name) for name in PLACES[kind])


def first_sync(schedule: str | None, scope: TenantScope, now: Any) -> Any:
    """Return when a schedule is due for the first time; None without one.

    Raises
    ------
    ValidationFailedError
    """
    if schedule is None:
        return None
    try:
        return next_after(schedule, now, scope.timezone)
    except ScheduleError as error:
        raise _wrong("/schedule", error.code, error.detail) from None


def _stored(config: PulledConfig) -> dict[str, Any]:
    return config.model_dump(by_alias=True, exclude_none=True, mode="json")


def _is_service_account(text: str) -> bool:
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(key, dict) and key.get("type") == "service_account" and "private_key" in key


def _wrong(pointer: str, code: str, detail: str) -> ValidationFailedError:
    return ValidationFailedError.of(FieldError(pointer=pointer, code=code, detail=detail))


def _refused(pointer: str, code: str, detail: str) -> UrlNotAllowedError:
    return UrlNotAllowedError(detail, errors=[FieldError(pointer=pointer, code=code, detail=detail)])
