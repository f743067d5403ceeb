"""Who reads a Secret again now and then, and calls the API all the time, notices nothing of what happens to keys."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from support.control_plane import ControlPlane, wait_until
from support.operator_process import Operators, Tenants, ask, key, served
from support.postgres import cloned, crashing

KEYS = ("ledger", "shop", "bank", "audit")
ROUNDS = 5
"""Rotations of each key; the operator is killed in the middle of each round."""
OVERLAP_SECONDS = 6
READ_AGAIN_SECONDS = 1.0
"""To the overlap as a minute to six: a client with an overlap of hours has far more time."""

PAUSE_SECONDS = 0.05
"""Between two calls; what is tested needs the processors too."""


class Client(threading.Thread):
    """Calls the API with what one Secret holds, which it reads again after a while."""

    def __init__(self, tenants: Tenants, name: str, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self._tenants, self._name, self._ended = tenants, name, ended
        self.calls = 0
        self.waits = 0
        """Calls that were made again, since the database was away: 503, or no answer at all."""
        self.keys: set[str] = set()
        self.failures: list[Any] = []

    def run(self) -> None:
        """Call until the end, and keep what went wrong."""
        try:
            while not self._ended.is_set():
                secret = self._tenants.secret(self._name)
                assert secret is not None, f"Secret {self._name} is gone"
                self.keys.add(secret["api-key-id"])
                read_at = time.monotonic()
                while time.monotonic() - read_at < READ_AGAIN_SECONDS and not self._ended.wait(PAUSE_SECONDS):
                    self._call(secret)
        except BaseException as error:  # noqa: BLE001 - told by the test, in whose thread it is not
            self.failures.append(error)

    def _call(self, secret: dict[str, str]) -> None:
        try:
            answer = ask(secret)
        except httpx2.TransportError:
            self.waits += 1
            return
        self.calls += 1
        if answer.status_code == 503:
            self.waits += 1
            self._ended.wait(0.2)
        elif answer.status_code != 200:
            self.failures.append((answer.status_code, answer.text))


@contextmanager
def calling(tenants: Tenants) -> Iterator[list[Client]]:
    """Let a client for each key call until the context ends."""
    ended = threading.Event()
    clients = [Client(tenants, f"{name}-key", ended) for name in KEYS]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        ended.set()
        for client in clients:
            client.join(30)


def test_no_call_fails_through_rotations_kills_and_a_restart_of_the_database(
    plane: ControlPlane, tenants: Tenants, tmp_path: Path
) -> None:
    rotation = {"interval": "1h", "overlap": f"{OVERLAP_SECONDS}s"}
    with ExitStack() as stack:
        postgres, crash = stack.enter_context(crashing())
        database = stack.enter_context(cloned(postgres))
        url = stack.enter_context(served(database, tmp_path))
        operators = Operators(plane=plane, database=database, folder=tmp_path, base_url=url)

        def held() -> list[str]:
            return [tenants.wait_secret(f"{name}-key")["api-key-id"] for name in KEYS]

        running = stack.enter_context(operators.started())
        tenants.create("steady", apiKeys=[key(name, rotation=rotation) for name in KEYS])
        tenants.wait_for("steady", "Reconciled")
        before = held()
        clients = stack.enter_context(calling(tenants))
        for number in range(ROUNDS):
            if number == ROUNDS // 2:
                asyncio.run(crash(seconds=1.0))
            tenants.annotate("steady", rotate=str(number))
            wait_until("a new key", lambda old=before: held() != old, seconds=90)
            # Killed as soon as one key has been replaced; the next operator does the others.
            running.process.kill()
            running = stack.enter_context(operators.started())
            wait_until("all keys", lambda old=before: not set(old) & set(held()), seconds=90)
            before = held()
        wait_until("the last keys", lambda: all(k in c.keys for c, k in zip(clients, before, strict=True)))
    assert [failure for client in clients for failure in client.failures] == []
    for client in clients:
        assert len(client.keys) > ROUNDS
        assert client.calls > client.waits
