"""A server that is asked to end lets those leave who keep a connection, and loses none of their requests."""

from __future__ import annotations

import http.client
import signal
import time
from pathlib import Path

from payrec.embedded.postgres import EmbeddedDatabase
from support.commands import environment, is_healthy, started
from support.control_plane import wait_until
from support.ports import free_port

CONNECTIONS = 3
END_SECONDS_MAX = 15.0
"""How long a server with nothing to do may take; an idle connection is waited for, but not for ever."""


def asked(connection: http.client.HTTPConnection) -> tuple[int, str | None]:
    """Ask on a connection, and return the status and what is said of the connection."""
    connection.request("GET", "/api/health")
    answer = connection.getresponse()
    answer.read()
    return answer.status, answer.getheader("connection")


def test_a_kept_connection_may_be_used_once_more(database: EmbeddedDatabase, tmp_path: Path) -> None:
    port = free_port()
    settings = environment(database, PORT=str(port), INTERNAL_PORT="0")
    with started("serve", cwd=tmp_path, environ=settings) as running:
        wait_until("the API", lambda: is_healthy(f"http://127.0.0.1:{port}"))
        kept = [http.client.HTTPConnection("127.0.0.1", port, timeout=10) for _ in range(CONNECTIONS)]
        assert [asked(connection) for connection in kept] == [(200, None)] * CONNECTIONS
        running.process.send_signal(signal.SIGTERM)
        last, idle = kept[0], kept[1:]
        # Whoever asks before it is heard of is answered as before, and after it with the connection's end.
        wait_until("an answer that ends the connection", lambda: asked(last) == (200, "close"))
        began = time.monotonic()
        for connection in idle:
            assert asked(connection) == (200, "close")
        assert running.ended() == 0
        assert time.monotonic() - began < END_SECONDS_MAX
        assert "Traceback" not in running.rest()
        for connection in kept:
            connection.close()
