"""What goes from the coordinator of a Citus cluster to a worker, with somebody on the line."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import psycopg

from payrec.embedded.postgres import EmbeddedDatabase
from support.citus import JOIN_SECONDS_MAX, Node, nodes_of, once_let

LAST_WORD = b"COMMIT PREPARED"
"""What a worker is told after the coordinator has committed."""

_BYTES = 65_536
_ADDRESS = "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid = %s"
_ID = "SELECT nodeid FROM pg_dist_node WHERE groupid = %s"
_MOVE = "SELECT citus_update_node(%s, %s, %s)"
_OUT_OF_SYNC = "SELECT FROM pg_dist_node WHERE hasmetadata AND NOT metadatasynced"


class Wire:
    """The way to a worker. Its last word to a transaction may be held back, or be lost with the connection."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._goes_on: asyncio.Event | None = None
        self._cuts = False
        self._carrying: set[asyncio.Task[None]] = set()
        self.is_waited_for = asyncio.Event()
        """Whether a last word is held back."""

    @asynccontextmanager
    async def laid(self, database: EmbeddedDatabase) -> AsyncIterator[None]:
        """Let the coordinator reach the worker on this way alone, in a database."""
        server = await asyncio.start_server(self._connected, self._node.host, 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.to_thread(self._move, database, port)
        try:
            yield
        finally:
            await asyncio.to_thread(self._move, database, self._node.port)
            server.close()
            for task in self._carrying:
                task.cancel()
            await asyncio.gather(*self._carrying, return_exceptions=True)
            # Sockets are closed by what is called next.
            await asyncio.sleep(0)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold last words back within the context."""
        self._goes_on, self.is_waited_for = asyncio.Event(), asyncio.Event()
        try:
            yield
        finally:
            self._goes_on.set()
            self._goes_on = None

    @contextmanager
    def cutting(self) -> Iterator[None]:
        """Lose connections at their last word within the context."""
        self._cuts = True
        try:
            yield
        finally:
            self._cuts = False

    def take(self, database: EmbeddedDatabase, schema: str) -> None:
        """Have a schema moved to the worker, unless it is there."""
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            [(host, port)] = connection.execute(_ADDRESS, (self._node.group,)).fetchall()
            if nodes_of(database, schema) != [(host, port)]:
                connection.execute("SELECT citus_schema_move(%s, %s, %s)", (schema, host, port))

    def _move(self, database: EmbeddedDatabase, port: int) -> None:
        def move() -> None:
            with psycopg.connect(database.superuser_url, autocommit=True) as connection:
                [(node_id,)] = connection.execute(_ID, (self._node.group,)).fetchall()
                connection.execute(_MOVE, (node_id, self._node.host, port))

        def look() -> None:
            with psycopg.connect(database.superuser_url, autocommit=True) as connection:
                if connection.execute(_OUT_OF_SYNC).fetchone() is not None:
                    raise psycopg.OperationalError("a node has not been told yet where the other one is")

        # Now and then it ends the coordinator (signal 11, Citus 15 in development), which begins again by itself.
        once_let(move, refused=psycopg.Error, until=time.monotonic() + JOIN_SECONDS_MAX)
        # No table is made until all nodes know.
        once_let(look, refused=psycopg.Error, until=time.monotonic() + JOIN_SECONDS_MAX)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        async with AsyncExitStack() as ends:
            ends.callback(writer.transport.abort)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                from_node, to_node = await asyncio.open_connection(self._node.host, self._node.port)
                ends.callback(to_node.transport.abort)
                await asyncio.gather(self._asked(reader, to_node, writer), _carried(from_node, writer))

    async def _asked(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asker: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(_BYTES):
            if LAST_WORD in data and self._cuts:
                asker.transport.abort()
                break
            if LAST_WORD in data and self._goes_on is not None:
                self.is_waited_for.set()
                await self._goes_on.wait()
            writer.write(data)
            await writer.drain()
        writer.close()


async def _carried(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_BYTES):
        writer.write(data)
        await writer.drain()
    writer.close()
