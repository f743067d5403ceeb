"""A database that only reads for a while, as a standby does: a worker says so once, and once when it is over."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from payrec.jobs import troubles
from payrec.jobs.app import create_app
from payrec.jobs.troubles import Troubles
from support.outgoing import new_place, telling
from support.postgres import cloned, crashing
from support.receivers import receiving
from support.service import make_config, running
from support.wire import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.not_on_citus("it makes a standby of a server that it has started itself, and of none of the cluster's"),
]

REFUSALS = 4
"""What is tried again each second has been refused so often."""


def test_each_reason_is_told_once_and_when_nobody_has_met_it_for_a_while() -> None:
    now, told = 0.0, []

    class Logger:
        def warning(self, event: str, *, reason: str) -> None:
            told.append((event, reason))

        info = warning

    found = Troubles("x", monotonic=lambda: now, logger=Logger())
    for _ in range(3):
        found.meet("read-only")
        now += 1
    found.meet("locked")
    now += troubles.OVER_SECONDS - 1
    found.pass_by()
    assert told == [("x.database_unavailable", "read-only"), ("x.database_unavailable", "locked")]
    found.meet("locked")
    now += 2
    found.pass_by()
    found.pass_by()
    assert told[2:] == [("x.database_regained", "read-only")]
    found.meet("read-only")
    assert told[3:] == [("x.database_unavailable", "read-only")]


async def test_a_worker_at_a_standby_says_so_once_and_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "OVER_SECONDS", 2.0)
    with crashing() as (postgres, outages), cloned(postgres) as database:
        async with running(make_config(database), worker=False) as service, receiving() as receiver:
            here, other = await new_place(service), await new_place(service)
            hooks = [(place, await place.hook(receiver.url)) for place in (here, other)]
            for place, _ in hooks:
                await place.happen(UUID(int=1))
            await outages.stand_by()
            met: list[str] = []
            real = Troubles.meet

            def meet(self: Troubles, reason: str) -> None:
                met.append(reason)
                real(self, reason)

            monkeypatch.setattr(Troubles, "meet", meet)
            with capture_logs() as logs:
                async with telling(service):

                    async def refused() -> bool | None:
                        return met.count("the database is read-only") >= REFUSALS or None

                    await until(refused, seconds=60)
                    await outages.take_over()
                    for place, hook in hooks:
                        await place.settled(hook, 1)

                    async def over() -> bool | None:
                        return "outgoing.database_regained" in [line["event"] for line in logs] or None

                    await until(over, seconds=60)
            reasons = [(line["event"], line["reason"]) for line in logs if "reason" in line]
            wanted = [f"outgoing.database_{state}" for state in ("unavailable", "regained")]
            assert [event for event, reason in reasons if reason == "the database is read-only"] == wanted
            assert [line for line in logs if line["log_level"] == "error"] == []


async def test_who_listens_says_when_it_hears_again() -> None:
    with crashing() as (postgres, outages), cloned(postgres) as database:
        app = create_app(url=database.url)
        async with app.open_async():

            async def heard(**_: str) -> None:
                pass

            with capture_logs() as logs:
                listening = asyncio.create_task(app.connector.listen_notify(on_notification=heard, channels=["any"]))

                async def told(event: str) -> None:
                    async def found() -> bool | None:
                        return event in [line["event"] for line in logs] or None

                    await until(found, seconds=60)

                await outages.stand_by()
                await told("worker.not_listening")
                await outages.take_over()
                await told("worker.listening_again")
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
            events = [line["event"] for line in logs]
    assert events == ["worker.not_listening", "worker.listening_again"]
