"""A steady load that counts what fails, until SIGTERM: nothing is ever tried again.

Requests begin at their own times, however long the answers take. Half of the workers keep their connection for as long
as the server does; the others make a new one for each request. Every tenth request creates something.

The Service's name is asked for once: its address stays, and what the cluster's DNS does where every core is taken is
not what is looked at here.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from api import headers, key, tell

RATE = float(os.environ["RATE"])
RUN = os.environ["RUN"]
"""Part of the ids of what is created, so that they are no other run's."""

WORKERS = 20
ANSWER_SECONDS = 30.0
KEPT_FAILURES = 20

url = urlsplit(key()["base-url"])
address = socket.getaddrinfo(url.hostname, url.port or 80, type=socket.SOCK_STREAM)[0][4]
HEAD = "".join(f"{name}: {value}\r\n" for name, value in {"Host": url.netloc, **headers()}.items())


@dataclass
class Seen:
    """What the workers have seen."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    failed: int = 0
    created: int = 0
    connections: int = 0
    slowest: float = 0.0
    late: float = 0.0
    """How far behind its time the latest request began: more than a second, and the rate was not held."""


class Connection:
    """An HTTP/1.1 connection that tells apart what a client has to know: an answer, an end before one."""

    def __init__(self, seen: Seen, *, keeps: bool) -> None:
        self._seen, self._keeps = seen, keeps
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> int:
        """Send a request and return the status of the answer."""
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # ended while nobody asked anything, as a server may at any time
        if self._streams is None:
            self._streams = await asyncio.open_connection(*address[:2])
            self._seen.connections += 1
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next(line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length:"))
        await reader.readexactly(int(length))
        if not self._keeps or "connection: close" in head:
            self.close()
        return int(head.split(" ", 2)[1])

    def close(self) -> None:
        """End it."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def request(number: str, *, creates: bool) -> bytes:
    """Return a request: a list, or an expected transaction of its own."""
    if not creates:
        return f"GET /expected-transactions?limit=5 HTTP/1.1\r\n{HEAD}\r\n".encode()
    body = json.dumps(
        {"externalId": f"load-{RUN}-{number}", "direction": "credit", "amount": "1.00", "currency": "EUR"}
    )
    return (
        f"POST /expected-transactions HTTP/1.1\r\n{HEAD}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


async def work(number: int, seen: Seen, began: float, stop: asyncio.Event) -> None:
    """Ask at this worker's own times until the end."""
    connection = Connection(seen, keeps=number % 2 == 0)
    interval = WORKERS / RATE
    due = began + interval * number / WORKERS
    count = 0
    while not stop.is_set():
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        seen.late = max(seen.late, time.monotonic() - due)
        due += interval
        count += 1
        creates = count % 10 == 0
        sent = time.monotonic()
        try:
            status = await asyncio.wait_for(
                connection.ask(request(f"{number}-{count}", creates=creates)), ANSWER_SECONDS
            )
        except (OSError, EOFError, TimeoutError) as error:
            connection.close()
            seen.failed += 1
            seen.failures.append(f"{time.monotonic() - began:.1f} s: {type(error).__name__} {error} creates={creates}")
            continue
        seen.statuses[status] += 1
        seen.slowest = max(seen.slowest, time.monotonic() - sent)
        if status == 201:
            seen.created += 1
        elif status != 200:
            seen.failed += 1
            seen.failures.append(f"{time.monotonic() - began:.1f} s: {status} creates={creates}")
    connection.close()


async def main() -> None:
    """Let the workers ask until they are to stop, and tell what they saw."""
    seen, began, stop = Seen(), time.monotonic(), asyncio.Event()
    working = asyncio.gather(*(work(number, seen, began, stop) for number in range(WORKERS)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await working
    seconds = time.monotonic() - began
    tell(
        requests=sum(seen.statuses.values()) + seen.failed,
        failed=seen.failed,
        failures=seen.failures[:KEPT_FAILURES],
        statuses={str(status): count for status, count in seen.statuses.items()},
        created=seen.created,
        connections=seen.connections,
        seconds=seconds,
        slowest=seen.slowest,
        late=seen.late,
    )


asyncio.run(main())
