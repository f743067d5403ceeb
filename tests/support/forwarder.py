"""A forwarder on loopback: what stands behind it can be cut off and come back, or be reached by TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

LOOPBACK = "127.0.0.1"
READ_BYTES = 64 * 1024


class Forwarder:
    """Passes bytes on to one port of this machine, on a port of its own that it keeps while it is closed.

    The target's host may be a folder, as in PostgreSQL's addresses: it has the server's socket.
    """

    def __init__(self, target_port: int, *, tls: ssl.SSLContext | None = None, target_host: str = LOOPBACK) -> None:
        self._target_port = target_port
        self._target_host = target_host
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self.port = 0
        self.delay_seconds = 0.0
        """How long what comes is kept before it is passed on, either way."""

    async def open(self) -> None:
        """Take connections from now on."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections from now on, and end those that there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            # It came while this was being closed: nobody would end it.
            writer.close()
            return
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        # However it ends: also before its first step, or while it reaches for what stands behind.
        task.add_done_callback(lambda _: writer.close())

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target_host, self._target_port
        is_folder = host.startswith("/")
        try:
            behind_reader, behind_writer = await (
                asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
                if is_folder
                else asyncio.open_connection(host, port)
            )
        except OSError:
            return
        ways = ((reader, behind_writer), (behind_reader, writer))
        both = [asyncio.create_task(self._pump(source, target)) for source, target in ways]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before it waits: it may be cancelled meanwhile, as by whoever closes all of them.
            behind_writer.close()
            for pump in both:
                pump.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(READ_BYTES):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def forwarding(
    target_port: int, *, host: str = LOOPBACK, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Forwarder]:
    """Run a forwarder to a port."""
    forwarder = Forwarder(target_port, target_host=host, tls=tls)
    await forwarder.open()
    try:
        yield forwarder
    finally:
        await forwarder.close()


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a certificate for loopback; return the server's context, and the file that a client trusts it by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "payrec tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(LOOPBACK))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    trusted, private = folder / "certificate.pem", folder / "private.pem"
    trusted.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, private)
    return context, trusted
