"""``python -m payrec_operator.uninstall``: what is done before a release is uninstalled.

The operator is scaled to nothing, because it would put its finalizer back; when its pod has ended, the finalizer is
taken off every Tenant, because nobody else would. No Tenant is deleted, and no data is dropped, also not of Tenants
whose deletion is under way: dropping needs the operator. What is not there any more is no error, so it may run again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from payrec.errors import PayrecError
from payrec_operator.api_server import ApiServer, NotThereError, api_server, objects
from payrec_operator.constants import FINALIZER
from payrec_operator.errors import OperatorError, SecretConflictError, SecretForbiddenError

SECONDS_MAX: Final = 180.0
"""How long all of it may take: longer than the operator's pod may take to end, shorter than the Job's own limit."""

PAUSE_SECONDS: Final = 0.5
"""Between two looks at what is to end."""

ROUNDS_MAX: Final = 5
"""Rounds over all Tenants, of which the last one has to find nothing: others may change one at the same moment."""

_RESOURCES: Final = "/apis/payrec.dev/v1"

Say = Callable[[str], None]
Sleep = Callable[[float], Awaitable[None]]


class UnreleasedError(OperatorError):
    """Somebody puts the finalizer back."""


class Uninstallation:
    """Does it, by requests to the API server. ``namespaces`` are those with Tenants; all of them where it is empty."""

    def __init__(
        self,
        api: ApiServer,
        *,
        namespace: str,
        deployment: str,
        selector: str,
        namespaces: Sequence[str] = (),
        say: Say,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
        self._selector = selector
        self._namespaces = namespaces
        self._say = say
        self._sleep = sleep

    async def run(self) -> None:
        """Do all of it.

        Raises
        ------
        OperatorError
        """
        await self.stop_operator()
        for namespace in self._namespaces or (None,):
            await self.release(namespace)

    async def stop_operator(self) -> None:
        """Scale the operator to nothing and wait until its last pod has ended; one that is not there is no error."""
        try:
            await self._api.ask(
                "scale the operator to nothing",
                "PATCH",
                f"{self._deployment}/scale",
                {"spec": {"replicas": 0}},
                content_type="application/merge-patch+json",
            )
        except NotThereError:
            self._say("there is no operator")
        told = None
        while (left := await self._left()) is not None:
            if left != told:
                self._say(f"waiting for {left}")
                told = left
            await self._sleep(PAUSE_SECONDS)
        self._say("the operator has ended")

    async def release(self, namespace: str | None) -> None:
        """Take the finalizer off all Tenants of a namespace, or of all namespaces."""
        count = 0
        try:
            for _ in range(ROUNDS_MAX):
                path = f"{_RESOURCES}/namespaces/{namespace}/tenants" if namespace else f"{_RESOURCES}/tenants"
                held = [tenant async for tenant in objects(self._api, "list Tenants", path) if _held(tenant)]
                if not held:
                    self._say(f"{count} Tenants released in {namespace or 'all namespaces'}")
                    return
                for tenant in held:
                    count += await self._release(tenant)
        except NotThereError:
            self._say("the Tenant resource is not defined any more")
            return
        except SecretForbiddenError:
            # The Role of a namespace goes with the namespace, and with it all of its Tenants.
            if namespace is None:
                raise
            self._say(f"no rights in the namespace {namespace}: it is gone, or its Tenants keep their finalizer")
            return
        raise UnreleasedError("somebody puts the finalizer of Tenants back: is there another operator?")

    async def _left(self) -> str | None:
        """Return what of the operator is still there."""
        found = await self._api.find("look at the operator", self._deployment)
        if found is not None:
            status = found.get("status") or {}
            if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0) or status.get("replicas"):
                return "the operator's Deployment"
        pods = await self._api.ask(
            "look at the operator's pods",
            "GET",
            f"/api/v1/namespaces/{self._namespace}/pods",
            query={"labelSelector": self._selector},
        )
        # One that has ended is kept for its log.
        running = [pod for pod in pods["items"] if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}]
        return f"the pod {running[0]['metadata']['name']}" if running else None

    async def _release(self, tenant: dict[str, Any]) -> int:
        """Take the finalizer off one Tenant; return 0 where it has changed meanwhile, for the next round to look at."""
        metadata = tenant["metadata"]
        at = f"/metadata/finalizers/{metadata['finalizers'].index(FINALIZER)}"
        try:
            await self._api.ask(
                f"release Tenant {metadata['namespace']}/{metadata['name']}",
                "PATCH",
                f"{_RESOURCES}/namespaces/{metadata['namespace']}/tenants/{metadata['name']}",
                [{"op": "test", "path": at, "value": FINALIZER}, {"op": "remove", "path": at}],
                content_type="application/json-patch+json",
            )
        except SecretConflictError:  # or it is gone
            return 0
        return 1


def _held(tenant: dict[str, Any]) -> bool:
    return FINALIZER in tenant["metadata"].get("finalizers", ())


async def uninstall(arguments: argparse.Namespace) -> None:
    """Do it for a release, within a time.

    Raises
    ------
    ConfigurationError, OperatorError, TimeoutError
    """
    async with asyncio.timeout(arguments.seconds), api_server() as api:
        await Uninstallation(
            api,
            namespace=arguments.namespace,
            deployment=arguments.deployment,
            selector=arguments.selector,
            namespaces=arguments.watch_namespace,
            say=say,
        ).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do it and return the exit code; what keeps it from being done is one line."""
    parser = argparse.ArgumentParser(prog="payrec-uninstall", description="Let Tenants go before the operator does.")
    parser.add_argument("--namespace", required=True, help="of the release")
    parser.add_argument("--deployment", required=True, help="the operator's")
    parser.add_argument("--selector", required=True, help="labels of the operator's pods")
    parser.add_argument("--watch-namespace", action="append", default=[], help="with Tenants; may be repeated")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help=f"time for all of it ({SECONDS_MAX:.0f})")
    given = parser.parse_args(arguments)
    try:
        asyncio.run(uninstall(given))
    except TimeoutError:
        refusal = f"not done within {given.seconds:.0f} s"
    except PayrecError as error:
        refusal = error.detail
    except OperatorError as error:
        refusal = str(error)
    else:
        return 0
    say(f"{refusal}; `helm uninstall --no-hooks` goes on without this, and leaves the finalizers")
    return 1


def say(text: str) -> None:
    """Tell whoever reads the Job's log."""
    print(f"payrec-uninstall: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the log of the Job


if __name__ == "__main__":
    sys.exit(main())
