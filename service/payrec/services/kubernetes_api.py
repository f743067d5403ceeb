"""The API server of the cluster, as far as ``POST /tenants`` needs it: read a Tenant resource, and make one.

Plain HTTPS with what every pod has of its service account. Its files are read for each request, because both the token
and the CA are replaced while the pod runs.
"""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx2
import structlog

from payrec.config import Config
from payrec.constants.tenants import KUBERNETES_RESPONSE_BYTES_MAX, KUBERNETES_TIMEOUT_SECONDS
from payrec.errors import ConfigurationError, FieldError, UnavailableError, ValidationFailedError
from payrec.services.strict_json import strict_json

RESOURCES: Final = "apis/payrec.dev/v1/namespaces/{namespace}/tenants"
"""Where the Tenant resources of a namespace are."""

_TOKEN: Final = "token"  # noqa: S105 - the name of a file
_AUTHORITY: Final = "ca.crt"
_NAMESPACE: Final = "namespace"
_FAILURES: Final = (httpx2.HTTPError, httpx2.StreamError, OSError, TimeoutError, ValueError)
_REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
_POINTERS: Final = (
    ("spec.displayName", "/name"),
    ("spec.slug", "/slug"),
    ("metadata.name", "/slug"),
    ("spec.environments", "/environments"),
    ("spec.settings", "/settings"),
    ("spec.users", "/admin"),
)
"""Fields of the resource, and where their values stand in the request."""


class KubernetesApi:
    """Speaks to the API server as the pod's service account, about ``namespace``: that of the pod and the release."""

    def __init__(self, *, url: str, namespace: str, directory: Path) -> None:
        self._url = url
        self.namespace = namespace
        self._directory = directory
        self._logger = structlog.get_logger("payrec.kubernetes")

    async def get(self, name: str) -> dict[str, Any] | None:
        """Return a Tenant resource; None where there is none of that name.

        Raises
        ------
        UnavailableError
        """
        status, document = await self._ask("GET", f"/{name}")
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status != HTTPStatus.OK:
            raise self._unusable(status, document)
        return document

    async def create(self, resource: dict[str, Any]) -> bool:
        """Make a Tenant resource; return False where there is one of that name already.

        Raises
        ------
        ValidationFailedError
            The API server says that the resource cannot be so.
        UnavailableError
        """
        status, document = await self._ask("POST", "", json=resource)
        if status == HTTPStatus.CREATED:
            return True
        if status == HTTPStatus.CONFLICT and document.get("reason") == "AlreadyExists":
            return False
        if status in _REFUSED:
            raise _refusal(document)
        raise self._unusable(status, document)

    async def _ask(self, method: str, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
        body = bytearray()
        try:
            address = f"{self._url}/{RESOURCES.format(namespace=self.namespace)}{path}"
            token = (self._directory / _TOKEN).read_text(encoding="ascii").strip()
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            authority = await asyncio.to_thread(ssl.create_default_context, cafile=str(self._directory / _AUTHORITY))
            async with (
                asyncio.timeout(KUBERNETES_TIMEOUT_SECONDS),
                httpx2.AsyncClient(
                    verify=authority, trust_env=False, follow_redirects=False, timeout=KUBERNETES_TIMEOUT_SECONDS
                ) as http,
                http.stream(method, address, headers=headers, **options) as response,
            ):
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > KUBERNETES_RESPONSE_BYTES_MAX:
                        raise ValueError("the answer is too large")
                return response.status_code, strict_json(bytes(body))
        except _FAILURES as error:
            # From None: the request has the token.
            self._logger.warning("kubernetes.unavailable", error=type(error).__name__)
            raise UnavailableError("the Kubernetes API server does not answer") from None

    def _unusable(self, status: int, document: dict[str, Any]) -> UnavailableError:
        """Log what the API server says, and return the error, which does not tell it."""
        reason = str(document.get("reason"))[:64]
        self._logger.error("kubernetes.refused", status=status, reason=reason)
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return UnavailableError("the service may not make Tenant resources: its service account lacks the right")
        return UnavailableError("the Kubernetes API server cannot do this now")


def kubernetes_api(config: Config) -> KubernetesApi:
    """Return the API server of the settings, after a look whether the pod has what it takes.

    Raises
    ------
    ConfigurationError
    """
    host = config.kubernetes_service_host
    if host is None:
        raise ConfigurationError(
            "TENANT_PROVISIONER kubernetes works in a pod only: KUBERNETES_SERVICE_HOST is not set"
        )
    directory = config.service_account_dir
    for name in (_TOKEN, _AUTHORITY, _NAMESPACE):
        if not _text(directory / name):
            raise ConfigurationError(
                f"TENANT_PROVISIONER kubernetes needs a service account: {directory / name} is missing or unreadable"
            )
    address = f"[{host}]" if ":" in host else host
    return KubernetesApi(
        url=f"https://{address}:{config.kubernetes_service_port}",
        namespace=_text(directory / _NAMESPACE),
        directory=directory,
    )


def _text(path: Path) -> str:
    """Return what a file has; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _refusal(document: dict[str, Any]) -> ValidationFailedError:
    """Return which members of the request the API server refuses; its texts quote values, so they stay out."""
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    fields = [str(cause.get("field")) for cause in causes or [] if isinstance(cause, dict)]
    pointers = sorted({_pointer(field) for field in fields} or {""})
    detail = "the Tenant resource cannot have this value"
    return ValidationFailedError.of(*(FieldError(pointer=p, code="refused", detail=detail) for p in pointers))


def _pointer(field: str) -> str:
    for prefix, pointer in _POINTERS:
        if field == prefix or field.startswith((f"{prefix}.", f"{prefix}[")):
            rest = field.removeprefix(prefix)
            return pointer + (rest.replace(".", "/") if pointer == "/settings" else "")
    return ""
