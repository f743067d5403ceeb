"""Requests to the API server over the official client's connection, as plain objects.

The client's own classes are left out: decoding into them costs a hundred times as much as reading JSON. The API
server's texts are never passed on, because a refusal may quote what a Secret holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.exceptions import ApiException

from payrec_operator.errors import (
    NamespaceTerminatingError,
    OperatorError,
    SecretConflictError,
    SecretForbiddenError,
    SecretsUnavailableError,
)

REQUEST_SECONDS_MAX: Final = 30
"""How long one request to the API server may take."""


class ApiServer:
    """The API server, as this process's account."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def ask(
        self,
        what: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Send a request and return the object that is answered. ``what`` says in an error what was attempted.

        Raises
        ------
        NotThereError
            There is no such object.
        SecretsUnavailableError, NamespaceTerminatingError, SecretForbiddenError, SecretConflictError
        """
        try:
            answer = await self._send(method, path, body, query, content_type)
            content = await answer.read()
        except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SecretsUnavailableError(
                f"{what}: the API server cannot be reached ({type(error).__name__})"
            ) from None
        found = _object(content)
        if int(answer.status) >= 400:
            raise _refusal(what, int(answer.status), found)
        return found

    async def find(self, what: str, path: str) -> dict[str, Any] | None:
        """Return an object, or None where there is none.

        Raises
        ------
        As ``ask``.
        """
        try:
            return await self.ask(what, "GET", path)
        except NotThereError:
            return None

    async def _send(self, method: str, path: str, body: Any, query: Mapping[str, str] | None, content_type: str) -> Any:
        method, url, headers, body, form = await self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Content-Type": content_type, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._client.call_api(method, url, headers, body, form, _request_timeout=REQUEST_SECONDS_MAX)


class NotThereError(SecretConflictError):
    """What was to be read, changed or deleted is not there."""


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _refusal(what: str, status: int, answer: Mapping[str, Any]) -> OperatorError:
    details = answer.get("details")
    details = details if isinstance(details, Mapping) else {}
    reasons = {cause.get("reason") for cause in details.get("causes") or () if isinstance(cause, Mapping)}
    if status == 403 and "NamespaceTerminating" in reasons:
        return NamespaceTerminatingError(f"{what}: the namespace is being deleted")
    if status == 404 and details.get("kind") == "namespaces":
        return NamespaceTerminatingError(f"{what}: the namespace is gone")
    if status == 403:
        return SecretForbiddenError(f"{what}: the operator's account has no right to")
    if status == 404:
        return NotThereError(f"{what}: it is not there")
    if status in {409, 422}:
        return SecretConflictError(f"{what}: it has changed meanwhile, or is somebody else's")
    return SecretsUnavailableError(f"{what}: the API server answers {status}")
