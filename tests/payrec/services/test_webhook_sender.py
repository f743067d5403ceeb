"""One message to receivers that do anything: how it ends, how soon, and that nothing internal is ever connected to."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web

from payrec.constants.events import WEBHOOK_LOOKUP_THREADS, WEBHOOK_LOOKUPS_OF_TENANT
from payrec.domain.addresses import Destinations
from payrec.domain.webhooks import Answer
from payrec.factory import SystemClock
from payrec.services import webhook_sender
from payrec.services.webhook_sender import WebhookSender, _Resolver
from support.forwarder import certificate
from support.receivers import Receiver, receiving, speaking

pytestmark = pytest.mark.anyio

LOOPBACK = Destinations.of("127.0.0.0/8")
KEYS = [b"k" * 32]
TENANT_ID = UUID(int=7)


async def send(url: str, destinations: Destinations = LOOPBACK) -> Answer:
    async with WebhookSender(destinations=destinations, clock=SystemClock()) as sender:
        return await sender.send(url, tenant_id=TENANT_ID, message_id=uuid4(), body=b"{}", keys=KEYS)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon."""
    for name, seconds in (("ATTEMPT", 0.6), ("CONNECT", 0.4), ("BODY", 0.2)):
        monkeypatch.setattr(webhook_sender, f"WEBHOOK_{name}_SECONDS", seconds)


def named(monkeypatch: pytest.MonkeyPatch, *turns: Sequence[str]) -> list[str]:
    """Let every name lead to these addresses, the next ones at each look-up; return the names that were looked up."""
    asked: list[str] = []

    def look_up(host: str, port: int, _family: int) -> list[Any]:
        found = turns[min(len(asked), len(turns) - 1)]
        asked.append(host)
        return [
            (socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (a, port))
            for a in found
        ]

    monkeypatch.setattr(_Resolver, "_look_up", staticmethod(look_up))
    return asked


async def test_a_good_receiver_gets_it_and_its_answer_is_kept_in_part() -> None:
    async with receiving(lambda _: web.Response(status=202, text="thank\x00 you " + "x" * 100_000)) as receiver:
        answer = await send(receiver.url)
    assert (answer.is_success, answer.status, answer.error) == (True, 202, None)
    assert answer.excerpt is not None
    assert answer.excerpt.startswith("thank\N{REPLACEMENT CHARACTER} you")
    assert len(answer.excerpt) == 500


@pytest.mark.usefixtures("quick")
async def test_one_that_hangs_or_drips_its_head_is_a_timeout() -> None:
    async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for byte in b"HTTP/1.1 200 OK\r\n" * 1000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)

    for talk in (hang, drip):
        async with speaking(talk) as url:
            began = time.monotonic()
            answer = await send(url)
        assert (answer.status, answer.error) == (None, "timeout")
        assert 0.5 < time.monotonic() - began < 5
        assert answer.duration_ms >= 500


@pytest.mark.usefixtures("quick")
async def test_the_head_decides_and_a_body_without_end_is_cut_off() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n")
        for _ in range(200):
            writer.write(b"y" * 1_000_000)
            await writer.drain()
            sent += 1_000_000

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"z")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with speaking(flood) as url:
        assert (await send(url)).is_success
        # What the sockets hold on both sides, and not 200 MB.
        assert sent < 50_000_000
    async with speaking(drip) as url:
        answer = await send(url)
    assert answer.is_success
    assert (answer.excerpt or "").strip("z") == ""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", "connection_closed"),
        (b"HTTP/1.1 200", "connection_closed"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "answer_malformed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", "answer_malformed"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000 + b"\r\n", "answer_malformed"),
    ],
)
async def test_one_that_closes_early_or_speaks_nonsense_is_a_failure(said: bytes, error: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()

    async with speaking(talk) as url:
        answer = await send(url)
    assert (answer.status, answer.error) == (None, error)


async def test_a_redirect_is_a_failure_and_not_followed() -> None:
    async with receiving() as internal:
        moved = web.Response(status=307, headers={"Location": internal.url})
        async with receiving(lambda _: moved) as receiver:
            answer = await send(receiver.url)
    assert (answer.is_success, answer.outcome) == (False, "redirected")
    assert internal.received == []
    metadata = web.Response(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
    async with receiving(lambda _: metadata) as receiver:
        assert (await send(receiver.url)).outcome == "redirected"


async def test_retry_after_is_read() -> None:
    async with receiving(lambda _: web.Response(status=503, headers={"Retry-After": "90"})) as receiver:
        answer = await send(receiver.url)
    assert answer.retry_after is not None
    assert (answer.outcome, answer.retry_after.total_seconds()) == ("status_5xx", 90)


async def test_a_certificate_that_nobody_vouches_for_is_refused_and_one_of_ours_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, trusted = certificate(tmp_path)
    async with receiving(tls=tls) as receiver:
        answer = await send(receiver.url)
        assert (answer.error, receiver.received) == ("tls_failed", [])
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert (await send(receiver.url)).is_success
        # The name must be the certificate's, too.
        named(monkeypatch, ["127.0.0.1"])
        other = receiver.url.replace("127.0.0.1", "receiver.example")
        assert (await send(other)).error == "tls_failed"


async def test_plain_http_to_a_port_of_tls_is_a_failure(tmp_path: Path) -> None:
    tls, _ = certificate(tmp_path)
    async with receiving(tls=tls) as receiver:
        answer = await send(receiver.url.replace("https", "http"))
    assert answer.status in {None, 400}
    assert not answer.is_success


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["::ffff:127.0.0.1"], ["::1"]])
async def test_a_name_of_an_internal_address_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    made: list[str] = []
    plain = socket.socket

    def counted(*given: Any, **more: Any) -> socket.socket:
        made.append("socket")
        return plain(*given, **more)

    asked = named(monkeypatch, addresses)
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        async with WebhookSender(destinations=Destinations(), clock=SystemClock()) as sender:
            monkeypatch.setattr(webhook_sender.socket, "socket", counted)
            url = f"https://rebound.example:{port}/hook"
            answer = await sender.send(url, tenant_id=TENANT_ID, message_id=uuid4(), body=b"{}", keys=KEYS)
            monkeypatch.setattr(webhook_sender.socket, "socket", plain)
    assert asked == ["rebound.example"]
    assert answer.error in {"address_refused", "connection_failed"}
    assert (made, receiver.received) == ([], [])


async def test_a_name_that_changes_its_mind_is_looked_at_at_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = Destinations.of("127.0.0.2/32")
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        named(monkeypatch, ["127.0.0.1"])
        assert (await send(f"http://rebound.example:{port}/hook", allowed)).error == "address_refused"
        assert (await send(f"http://127.0.0.1:{port}/hook", allowed)).error == "address_refused"
        assert (await send(f"http://rebound.example:{port}/hook", LOOPBACK)).is_success
    assert len(receiver.received) == 1


async def test_without_the_look_at_the_socket_a_name_would_reach_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above guards: what it guards against is there."""
    named(monkeypatch, ["127.0.0.1"])
    monkeypatch.setattr(Destinations, "admits", lambda *_given, **_more: True)
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        assert (await send(f"http://rebound.example:{port}/hook", Destinations.of("127.0.0.2/32"))).is_success


async def test_http_reaches_no_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, ["8.8.8.8"])
    answer = await send("http://receiver.shop.svc/hook", Destinations.of("10.0.0.0/8"))
    assert answer.error == "address_refused"


async def test_a_name_that_is_none_and_nobody_at_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver:
        gone: Receiver = receiver
    assert (await send(gone.url)).error == "connection_refused"

    def unknown(*_given: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(_Resolver, "_look_up", staticmethod(unknown))
    assert (await send("https://nowhere.example/")).error == "name_not_found"


async def test_names_of_one_tenant_that_hang_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, asked = threading.Event(), Counter[str]()

    def look_up(host: str, *_more: Any) -> list[Any]:
        asked[host.partition(".")[0]] += 1
        if host.startswith("slow"):
            let_go.wait(30)
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    async def sent(host: str, tenant_id: UUID) -> Answer:
        return await sender.send(f"https://{host}/", tenant_id=tenant_id, message_id=uuid4(), body=b"{}", keys=KEYS)

    monkeypatch.setattr(_Resolver, "_look_up", staticmethod(look_up))
    async with WebhookSender(destinations=LOOPBACK, clock=SystemClock()) as sender, asyncio.TaskGroup() as group:
        slow = [group.create_task(sent(f"slow.{n}.example", TENANT_ID)) for n in range(WEBHOOK_LOOKUP_THREADS + 1)]
        async with asyncio.timeout(5):
            assert (await sent("quick.example", UUID(int=8))).error == "name_not_found"
        assert asked == {"slow": WEBHOOK_LOOKUPS_OF_TENANT, "quick": 1}
        let_go.set()
    assert {task.result().error for task in slow} == {"name_not_found"}
    assert asked["slow"] == len(slow)


def test_the_context_of_tls_verifies() -> None:
    context = ssl.create_default_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
