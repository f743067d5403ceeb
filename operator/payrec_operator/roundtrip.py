"""``python -m payrec_operator.roundtrip``: what ``helm test`` runs in the cluster.

The API answers; a Tenant of the test's own becomes Ready, the key in its Secret opens its environment through the
Service and nobody else's key does; then the Tenant is deleted with its data. One that an earlier test left is deleted
first.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeVar

import httpx2

from payrec.errors import PayrecError
from payrec_operator.api_server import ApiServer, NotThereError, api_server
from payrec_operator.errors import OperatorError

T = TypeVar("T")

SECONDS_MAX: Final = 180.0
"""How long all of it may take; shorter than the pod's own limit."""

REQUEST_SECONDS_MAX: Final = 10.0
"""How long the API may take to answer."""

PAUSE_SECONDS: Final = 0.5
"""Between two looks at what is to come."""

ENVIRONMENT: Final = "test"
"""The one that the Tenant of the test has."""

_RESOURCES: Final = "/apis/payrec.dev/v1"


class FailedError(OperatorError):
    """Something is not as it should be."""


class RoundTrip:
    """The test. ``slug`` is one that no tenant has had: that of a deleted one is taken for a while."""

    def __init__(self, http: httpx2.AsyncClient, *, say: Callable[[str], None]) -> None:
        self._http = http
        self._say = say

    async def health(self) -> None:
        """See that the API answers."""

        async def look() -> bool:
            try:
                return (await self._http.get("/api/health")).status_code == HTTPStatus.OK
            except httpx2.HTTPError:
                return False

        await _until(look)
        self._say("the API answers")

    async def tenant(self, api: ApiServer, *, namespace: str, name: str, slug: str) -> None:
        """Make a Tenant, use its key, and delete it, also where something fails between."""
        path = f"{_RESOURCES}/namespaces/{namespace}/tenants"
        await self._delete(api, f"{path}/{name}")
        await api.ask("create the Tenant", "POST", path, _resource(namespace, name, slug))
        try:
            await self._ready(api, f"{path}/{name}")
            secret = await api.ask("read the Secret", "GET", f"/api/v1/namespaces/{namespace}/secrets/{name}-key")
            await self._use(_decoded(secret))
        except BaseException:
            # Asked for and not waited for: the time may be over.
            await api.ask("delete the Tenant", "DELETE", f"{path}/{name}")
            raise
        await self._delete(api, f"{path}/{name}")
        self._say("it is deleted")

    async def _ready(self, api: ApiServer, path: str) -> None:
        told: str | None = None

        async def look() -> bool:
            nonlocal told
            found = await api.ask("look at the Tenant", "GET", path)
            conditions = found.get("status", {}).get("conditions", ())
            ready = next((c for c in conditions if c["type"] == "Ready"), None)
            if ready is None:
                return False
            if ready["reason"] != told:
                told = ready["reason"]
                self._say(f"the Tenant is {told}: {ready.get('message', '')}")
            return bool(ready["status"] == "True")

        await _until(look)

    async def _use(self, secret: Mapping[str, str]) -> None:
        headers = {
            "X-Api-Key": secret["api-key"],
            "X-Tenant-Id": secret["tenant-id"],
            "X-Environment": secret["environment"],
        }
        await self._expect(headers, HTTPStatus.OK, "its key opens its environment")
        wrong = {**headers, "X-Api-Key": secret["api-key"][:-1] + ("A" if secret["api-key"][-1] != "A" else "B")}
        await self._expect(wrong, HTTPStatus.UNAUTHORIZED, "another key does not")

    async def _expect(self, headers: Mapping[str, str], status: HTTPStatus, sentence: str) -> None:
        answer = await self._http.get("/jobs", headers=dict(headers))
        if answer.status_code != status:
            # Not the body: it is of no use here, and may have what nobody expects.
            raise FailedError(f"the API answers {answer.status_code} where {status.value} was expected")
        self._say(sentence)

    async def _delete(self, api: ApiServer, path: str) -> None:
        """Delete the Tenant and wait until it is gone; one that is not there is no error."""
        try:
            await api.ask("delete the Tenant", "DELETE", path)
        except NotThereError:
            return

        async def look() -> bool:
            return await api.find("look at the Tenant", path) is None

        await _until(look)


async def _until(look: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again; the time of the whole test ends it."""
    while not await look():  # noqa: ASYNC110 - what happens elsewhere sets no event of ours
        await asyncio.sleep(PAUSE_SECONDS)


def _resource(namespace: str, name: str, slug: str) -> dict[str, Any]:
    key = {
        "name": "test",
        "environment": ENVIRONMENT,
        "secretName": f"{name}-key",
        "permissions": ["read"],
    }
    return {
        "apiVersion": "payrec.dev/v1",
        "kind": "Tenant",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "slug": slug,
            "displayName": "helm test",
            "deletionPolicy": "Delete",
            "environments": [{"name": ENVIRONMENT}],
            "apiKeys": [key],
        },
    }


def _decoded(secret: Mapping[str, Any]) -> dict[str, str]:
    return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}


async def check(arguments: argparse.Namespace) -> None:
    """Run the test within a time.

    Raises
    ------
    ConfigurationError, OperatorError, TimeoutError
    """
    async with (
        asyncio.timeout(arguments.seconds),
        httpx2.AsyncClient(base_url=arguments.url, timeout=REQUEST_SECONDS_MAX, trust_env=False) as http,
    ):
        trip = RoundTrip(http, say=say)
        await trip.health()
        if arguments.tenant is not None:
            namespace, _, name = arguments.tenant.partition("/")
            async with api_server() as api:
                slug = f"test-{secrets.token_hex(6)}"
                await trip.tenant(api, namespace=namespace, name=name, slug=slug)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the test and return the exit code; a failure is one line."""
    parser = argparse.ArgumentParser(prog="payrec-test", description="See that an installation works.")
    parser.add_argument("--url", required=True, help="where the API is")
    parser.add_argument("--tenant", metavar="NAMESPACE/NAME", help="a Tenant of the test's own; none: health alone")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help=f"time for all of it ({SECONDS_MAX:.0f})")
    given = parser.parse_args(arguments)
    try:
        asyncio.run(check(given))
    except TimeoutError:
        say(f"not done within {given.seconds:.0f} s")
    except httpx2.HTTPError as error:
        say(f"the API does not answer ({type(error).__name__})")
    except PayrecError as error:
        say(error.detail)
    except OperatorError as error:
        say(str(error))
    else:
        return 0
    return 1


def say(text: str) -> None:
    """Tell whoever reads the pod's log."""
    print(f"payrec-test: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the log of the pod


if __name__ == "__main__":
    sys.exit(main())
