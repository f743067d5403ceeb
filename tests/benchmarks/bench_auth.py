"""CPU of one authentication without its look-up in the database, by kind of credential, and its share of a GET.

The look-up answers from memory with the row that it found before; what it adds is printed too. CPU is that of the
process, not the time that passes, and the least of several rounds, so that neighbours on the machine do not count. A
whole GET is what a server process spends on one request for a 50-row page.

    python tests/benchmarks/bench_auth.py [--times 3000] [--seconds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
from bench_api import BODY, load, raw, serve_real, wait_for
from joserfc.jwk import OctKey

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.bench.figures import write_taken
from payrec.config import Config
from payrec.logs import configure_logging
from payrec.services.authentication import Credentials
from payrec.storage.authentication import AuthenticationStore
from payrec.storage.database import Database
from support.idp import claims, sign
from support.postgres import cloned, server
from support.service import Service, Tenant, make_config, running
from support.wire import add_key

ROUNDS = 7
JWT_SECRET = "j" * 32


async def microseconds(times: int, work: Callable[[], Awaitable[object]]) -> float:
    """Return the CPU of one call."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(times):
            await work()
        least = min(least, time.process_time() - began)
    return least / times * 1e6


@contextlib.contextmanager
def answering(row: dict[str, Any] | None) -> Any:
    """Let every look-up find this row, without a connection."""

    async def find(*_: Any, **__: Any) -> dict[str, Any] | None:
        return row

    @contextlib.asynccontextmanager
    async def door(_: Database) -> AsyncIterator[None]:
        yield None

    with (
        patch.object(AuthenticationStore, "find_key", find),
        patch.object(AuthenticationStore, "find_user", find),
        patch.object(Database, "authentication", door),
    ):
        yield


async def credentials_of(service: Service, acme: Tenant) -> dict[str, tuple[str, dict[str, Any] | None]]:
    """Return a credential of each kind, and the row that its look-up finds."""
    key = (await add_key(acme))["apiKey"]
    now = service.factory.context.clock.now()
    provided = await service.factory.verifier.verify(acme.token)
    stated = claims(now, iss="payrec", aud="payrec", sub=None, tenant_id=acme.id, user_id=str(provided.user_id))
    shared = sign(OctKey.import_key(JWT_SECRET), stated, alg="HS256", kid=None)
    async with service.factory.context.database.authentication() as connection:
        store = AuthenticationStore(connection)
        key_row = await store.find_key(key[3:19])
        user_row = await store.find_user(
            user_id=provided.user_id, subject=None, username=None, environment="production"
        )
    return {"API key": (key, key_row), "RS256": (acme.token, user_row), "HS256": (shared, user_row)}


async def one_by_one(
    arguments: argparse.Namespace, service: Service, acme: Tenant
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the CPU of each kind, without and with its look-up."""
    whole, without = {}, {}
    authenticator, verifier = service.factory.authenticator, service.factory.verifier
    for kind, (text, row) in (await credentials_of(service, acme)).items():
        sent = Credentials(authorization=f"Bearer {text}", tenant_id=acme.id, environment="production")

        async def identify(sent: Credentials = sent) -> None:
            await authenticator.identify(sent, request_id="bench")

        async def verify(text: str = text) -> None:
            await verifier.verify(text)

        with answering(row):
            alone = without[kind] = await microseconds(arguments.times, identify)
        whole[kind] = await microseconds(arguments.times // 10, identify)
        verified = (
            f", of which the token {await microseconds(arguments.times, verify):.0f}" if kind != "API key" else ""
        )
        print(f"{kind}: {alone:.0f} µs {verified}; with the look-up {whole[kind]:.0f} µs", flush=True)
    return without, whole


async def share(arguments: argparse.Namespace, config: Config, request: bytes, of: float) -> None:
    """Print the CPU of a whole GET with an API key, and how much of it authentication is."""
    process = multiprocessing.get_context("spawn").Process(target=serve_real, args=(config,), daemon=True)
    process.start()
    try:
        await wait_for(config.port)
        await load(config.port, request, clients=8, seconds=1)
        watched = psutil.Process(process.pid)
        before = watched.cpu_times()
        rate = await load(config.port, request, clients=8, seconds=arguments.seconds)
        after = watched.cpu_times()
        spent = after.user + after.system - before.user - before.system
        one = spent / (rate * arguments.seconds) * 1e6
        print(f"a GET of 50 rows: {one:.0f} µs; {of / one:.0%} of it to authenticate an API key, look-up included")
    finally:
        process.terminate()
        process.join()


async def main(arguments: argparse.Namespace) -> None:
    """Measure one kind after another, then the whole."""
    configure_logging(level="warning", form="json")
    with server() as postgres, cloned(postgres) as database:
        config = make_config(database, auth_mode="both", jwt_secret=JWT_SECRET)
        async with running(config, worker=False) as service:
            acme = await service.tenant("acme", environments=["production"])
            for number in range(200):
                await acme.post("/expected-transactions", {**BODY, "externalId": f"e{number}"})
            without, whole = await one_by_one(arguments, service, acme)
            write_taken(arguments.json, {kind.lower().replace(" ", "_"): cpu for kind, cpu in without.items()})
            key = await add_key(acme)
        headers = {"X-Api-Key": key["apiKey"], "X-Tenant-Id": acme.id, "X-Environment": "production"}
        await share(arguments, config, raw("GET", "/expected-transactions?limit=50", headers), whole["API key"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    asyncio.run(main(parser.parse_args()))
