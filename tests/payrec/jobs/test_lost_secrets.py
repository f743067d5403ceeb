"""Endpoints whose secret cannot be opened any more, as after a change of ENCRYPTION_KEY: told, and nothing is lost."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from support.outgoing import Place, here, idle, in_feed, new_place, telling
from support.receivers import receiving
from support.service import Service

__all__ = ["here", "idle"]

pytestmark = pytest.mark.anyio

RESOURCES = [UUID(int=n) for n in (1, 2)]


async def test_what_cannot_be_signed_waits_for_a_new_secret_and_says_so(idle: tuple[Service, str], here: Place) -> None:
    other = await new_place(idle[0])
    async with receiving() as receiver, receiving() as theirs, telling(idle[0]) as worker:
        webhook, elsewhere = await here.hook(receiver.url), await other.hook(theirs.url)
        await here.sql("UPDATE webhook SET secret_sealed = decode(repeat('01', 61), 'hex')")
        with capture_logs() as logs:
            await here.happen(*RESOURCES, *RESOURCES)
            await other.happen(*RESOURCES)
            waiting = await here.settled(webhook, 4, status="pending")
            await other.settled(elsewhere, 2)
        assert [d["error"] for d in waiting] == ["secret_lost", "secret_lost", None, None]
        assert {(d["attempts"], d["responseStatus"]) for d in waiting} == {(0, None)}
        for delivery in waiting[:2]:
            wait = datetime.fromisoformat(delivery["nextAttemptAt"]) - datetime.fromisoformat(delivery["createdAt"])
            assert timedelta(minutes=4) < wait < timedelta(minutes=6)
        [line] = [line for line in logs if line["event"].startswith("webhook.")]
        assert (line["event"], line["log_level"], line["remedy"]) == ("webhook.secret_lost", "warning", "rotate-secret")
        assert "ENCRYPTION_KEY" in line["error"]
        assert not [line for line in logs if line["log_level"] in {"error", "critical"}]
        count = worker.context.metrics.registry.get_sample_value
        assert count("payrec_webhook_deliveries_total", {"outcome": "secret_lost"}) == 2
        assert (await here.webhook(webhook))["failingSince"] is not None
        assert receiver.received == []
        assert (await here.tenant.post(f"/webhooks/{webhook}/rotate-secret")).status_code == 200
        await here.sql("UPDATE webhook_delivery SET next_attempt_at = now() WHERE status = 'pending'")
        await here.look_now()
        arrived = await here.settled(webhook, 4)
    assert {(d["attempts"], d["error"]) for d in arrived} == {(1, None)}
    found: dict[str, list[str]] = {}
    for came in receiver.received:
        found.setdefault(came.resource, []).append(came.id)
    assert found == await in_feed(here)
