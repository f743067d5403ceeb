"""A worker tries a database that is away less and less often, and soon after it was there."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from procrastinate import PsycopgConnector
from procrastinate.exceptions import ConnectorException
from structlog.testing import capture_logs

from payrec.constants.events import EVENT_POLL_SECONDS_MAX, EVENT_POLL_SECONDS_MIN
from payrec.constants.jobs import DATABASE_AWAY_SECONDS_MAX
from payrec.jobs import app as queue
from payrec.jobs.app import create_app
from payrec.jobs.outgoing import next_pause
from payrec.jobs.pauses import PAUSE_FIRST, Pauses

pytestmark = pytest.mark.anyio


def test_pauses_grow_to_a_bound_and_begin_anew_after_the_database_was_there() -> None:
    pauses = Pauses()
    told = [pauses.after(0.01) for _ in range(10)]
    assert told[0] == PAUSE_FIRST
    assert all(b > a or b == DATABASE_AWAY_SECONDS_MAX for a, b in pairwise(told))
    assert told[-1] == DATABASE_AWAY_SECONDS_MAX
    # A minute without a database is some fifteen attempts, and not sixty.
    assert sum(told) > 35
    assert pauses.after(DATABASE_AWAY_SECONDS_MAX + 1) == PAUSE_FIRST
    assert pauses.after(0.01) > PAUSE_FIRST


def test_who_looks_for_events_looks_seldom_while_the_database_is_away_and_often_afterwards() -> None:
    pause = EVENT_POLL_SECONDS_MIN
    for _ in range(30):
        pause = next_pause(pause, found=False, is_away=False)
    assert pause == EVENT_POLL_SECONDS_MAX
    for _ in range(30):
        pause = next_pause(pause, found=False, is_away=True)
    assert pause == DATABASE_AWAY_SECONDS_MAX
    assert next_pause(pause, found=False, is_away=False) == EVENT_POLL_SECONDS_MAX
    assert next_pause(pause, found=True, is_away=False) == EVENT_POLL_SECONDS_MIN


async def test_who_listens_waits_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class EnoughError(Exception):
        pass

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 4:
            raise EnoughError

    async def nobody_there(*_args: Any, **_options: Any) -> None:
        raise ConnectorException

    monkeypatch.setattr(queue.asyncio, "sleep", sleep)
    monkeypatch.setattr(PsycopgConnector, "listen_notify", nobody_there)
    connector: Any = create_app(url="postgresql://nobody@127.0.0.1/none").connector
    with capture_logs() as logs, pytest.raises(EnoughError):
        await connector.listen_notify(on_notification=None, channels=["any"])
    assert waited == sorted(set(waited))
    assert [entry["event"] for entry in logs] == ["worker.not_listening"], "once, however often it is tried"
