"""How long a database may say nothing at all. What is not bounded here, TCP bounds: by 15 minutes, or by hours.

A machine that is gone, or a link that swallows packets, ends no connection. Who has sent something waits as long as
its system sends it again; who waits for an answer waits until somebody asks whether the other side is there, which by
default is after two hours. A database that takes its time is not meant: its system answers, whatever it does.
"""

from __future__ import annotations

from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

POOL_TIMEOUT_SECONDS: Final = 10.0
"""How long a request waits for a connection before 503."""

RECONNECT_SECONDS_MAX: Final = POOL_TIMEOUT_SECONDS
"""For how long a pool tries to connect, each time after twice as long a pause, before who asks next begins anew. What
tries for as long as a database is away begins its last pause long before that is back, and keeps all waiting."""

CONNECT_SECONDS: Final = 5
"""How long a single connection may take to be made that only tells whether that can be."""

SILENCE_SECONDS_MAX: Final = 30
"""How long nothing may come of a database that should have answered or taken something: less than the 60 s for which
proxies usually wait for us, together with POOL_TIMEOUT_SECONDS. A database that stands still takes nothing either."""

IDLE_SECONDS: Final = 10
"""How long a connection is silent before its other side is asked whether it is there."""

ASKED_EVERY_SECONDS: Final = 5
"""How long after each question without an answer the next one is asked."""

BOUNDS: Final = {
    "connect_timeout": str(round(POOL_TIMEOUT_SECONDS)),
    "keepalives": "1",
    "keepalives_idle": str(IDLE_SECONDS),
    "keepalives_interval": str(ASKED_EVERY_SECONDS),
    "keepalives_count": str((SILENCE_SECONDS_MAX - IDLE_SECONDS) // ASKED_EVERY_SECONDS),
    "tcp_user_timeout": str(SILENCE_SECONDS_MAX * 1000),
}
"""Parameters of libpq, which ignores them on a socket of this machine."""


def missing_bounds(url: str) -> dict[str, str]:
    """Return the bounds that an address does not set itself."""
    given = conninfo_to_dict(url)
    return {name: value for name, value in BOUNDS.items() if name not in given}


def bounded(url: str) -> str:
    """Return what to connect with: the address, and the bounds that it does not set itself."""
    return make_conninfo(url, **missing_bounds(url))
