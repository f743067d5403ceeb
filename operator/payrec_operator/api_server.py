"""Requests to the API server, as plain objects, with the credentials that kopf finds.

The official client is left out: it takes tens of megabytes, and decoding into its classes costs a hundred times as
much as reading JSON. The API server's texts are never passed on, because a refusal may quote what a Secret holds: of
them, only the name of the quota, policy or webhook that refused is told.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import aiohttp
import kopf
import yaml

from payrec.errors import ConfigurationError
from payrec_operator.errors import (
    NamespaceTerminatingError,
    OperatorError,
    SecretConflictError,
    SecretForbiddenError,
    SecretsUnavailableError,
)

REQUEST_SECONDS_MAX: Final = 30
"""How long one request to the API server may take."""

METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""What to accept of a list where nothing that its objects hold is needed."""

PAGE_SIZE: Final = 500
"""Objects of a list that are read at once."""

TOKEN_SECONDS: Final = 60.0
"""After which the token is read again."""

_REFUSERS: Final = (
    ("the quota", re.compile(r"exceeded quota: ([a-z0-9][-a-z0-9.]{0,252})(?=,|$)")),
    ("the admission policy", re.compile(r"ValidatingAdmissionPolicy '([a-z0-9][-a-z0-9.]{0,252})'")),
    ("the admission webhook", re.compile(r'admission webhook "([a-z0-9][-a-z0-9.]{0,252})" denied')),
)
"""What refuses besides rights, and where the API server's text names it."""


def credentials() -> kopf.ConnectionInfo:
    """Return how to reach the API server as kopf does: as this pod's account, or as KUBECONFIG says. Reads files.

    Raises
    ------
    ConfigurationError
        Neither is there, or KUBECONFIG cannot be read.
    """
    settings = kopf.OperatorSettings()
    try:
        found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    except (kopf.LoginError, OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        # What cannot be read is not quoted: a configuration holds tokens.
        raise ConfigurationError("there is no API server: KUBECONFIG cannot be read") from None
    if found is None:
        raise ConfigurationError("there is no API server: neither a service account nor KUBECONFIG")
    if not isinstance(found.server, str):
        raise ConfigurationError("there is no API server: KUBECONFIG names none")
    return found


@asynccontextmanager
async def api_server(*, monotonic: Callable[[], float] = time.monotonic) -> AsyncIterator[ApiServer]:
    """Connect to the API server, as ``credentials`` says, until the context ends.

    Raises
    ------
    ConfigurationError
    """
    info = await asyncio.to_thread(credentials)
    try:
        connector = aiohttp.TCPConnector(ssl=info.as_ssl_context())
    except (OSError, ValueError):
        raise ConfigurationError("the API server's certificate authority, or our certificate, cannot be read") from None
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=info.trust_env) as session:
        yield ApiServer(session, info, monotonic=monotonic)


class ApiServer:
    """The API server, as this process's account."""

    def __init__(
        self, session: aiohttp.ClientSession, info: kopf.ConnectionInfo, *, monotonic: Callable[[], float]
    ) -> None:
        self._session = session
        self._server = info.server.rstrip("/")
        self._headers = info.as_http_headers()
        self._monotonic = monotonic
        self._read_at = monotonic()

    async def ask(
        self,
        what: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> dict[str, Any]:
        """Send a request and return the object that is answered. ``what`` says in an error what was attempted.

        Raises
        ------
        NotThereError
            There is no such object.
        SecretsUnavailableError, NamespaceTerminatingError, SecretForbiddenError, SecretConflictError
        """
        headers = {**await self._authorization(), "Content-Type": content_type, "Accept": accept}
        data = None if body is None else json.dumps(body).encode()
        try:
            async with self._session.request(
                method, self._server + path, data=data, params=query, headers=headers
            ) as answer:
                status, content = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SecretsUnavailableError(
                f"{what}: the API server cannot be reached ({type(error).__name__})"
            ) from None
        found = _object(content)
        if status >= 400:
            raise _refusal(what, method, status, found)
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

    async def _authorization(self) -> dict[str, str]:
        """Return what proves who asks; a pod's token is replaced in its file long before it ends."""
        if self._monotonic() - self._read_at > TOKEN_SECONDS:
            self._read_at = self._monotonic()
            with suppress(ConfigurationError):
                self._headers = (await asyncio.to_thread(credentials)).as_http_headers()
        return self._headers


async def objects(
    api: ApiServer, what: str, path: str, *, selector: str | None = None, accept: str = "application/json"
) -> AsyncIterator[dict[str, Any]]:
    """Read a list, however long, ``PAGE_SIZE`` at once.

    Raises
    ------
    As ``ApiServer.ask``.
    """
    query = {"limit": str(PAGE_SIZE)} | ({"labelSelector": selector} if selector is not None else {})
    following = ""
    while True:
        page = await api.ask(
            what, "GET", path, query=query | ({"continue": following} if following else {}), accept=accept
        )
        # Where there are none, a list of metadata has null.
        for found in page["items"] or ():
            yield found
        following = page["metadata"].get("continue") or ""
        if not following:
            return


class NotThereError(SecretConflictError):
    """What was to be read, changed or deleted is not there."""


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _refusal(what: str, method: str, status: int, answer: Mapping[str, Any]) -> OperatorError:
    details = answer.get("details")
    details = details if isinstance(details, Mapping) else {}
    causes = [cause for cause in details.get("causes") or () if isinstance(cause, Mapping)]
    reasons = {cause.get("reason") for cause in causes}
    if status == 403 and "NamespaceTerminating" in reasons:
        return NamespaceTerminatingError(f"{what}: the namespace is being deleted")
    if status == 404 and details.get("kind") == "namespaces":
        return NamespaceTerminatingError(f"{what}: the namespace is gone")
    refuser = _refuser(answer)
    if refuser is not None and 400 <= status < 500:
        return SecretForbiddenError(f"{what}: {refuser} refuses it")
    if status == 403:
        return SecretForbiddenError(f"{what}: the operator's account has no right to")
    if status == 404:
        return NotThereError(f"{what}: it is not there")
    if status == 422 and method == "PUT" and _is_immutable(causes):
        return SecretForbiddenError(f"{what}: it is immutable; delete it, and another is made")
    # Of a patch, 422 says that what it tests for is not so.
    if status == 409 or (status == 422 and method == "PATCH"):
        return SecretConflictError(f"{what}: it has changed meanwhile, or is somebody else's")
    if status == 422:
        return SecretForbiddenError(f"{what}: the API server takes it for invalid")
    return SecretsUnavailableError(f"{what}: the API server answers {status}")


def _refuser(answer: Mapping[str, Any]) -> str | None:
    """Return what refuses by itself, whatever the rights are: a quota, a policy or a webhook of somebody."""
    message = answer.get("message")
    for kind, pattern in _REFUSERS:
        if isinstance(message, str) and (found := pattern.search(message)) is not None:
            return f"{kind} {found[1]}"
    return None


def _is_immutable(causes: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether what was to be written is an object whose data may not change any more."""
    return any(
        cause.get("reason") == "FieldValueForbidden" and "immutable" in str(cause.get("message")) for cause in causes
    )
