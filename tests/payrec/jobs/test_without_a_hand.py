"""From a file that somebody drops somewhere to an accepted match and a signed message about it, without a hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from payrec.embedded.postgres import EmbeddedPostgres
from support.file_servers import PASSWORD, USER, sftp_server
from support.object_server import ACCESS_KEY, SECRET_KEY, object_server
from support.postgres import cloned
from support.receivers import Receiver, receiving
from support.service import Service, Tenant, make_config, running
from support.sources import PATH
from support.wire import until

pytestmark = pytest.mark.anyio

SETTINGS = {"matching": {"autoRun": True, "autoAccept": True}}


@pytest.fixture
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    with cloned(postgres) as database:
        async with running(make_config(database)) as started:
            yield started


def statement(reference: str, amount: str) -> bytes:
    """Return a bank's table with one payment that quotes a reference."""
    return b"Booking date;Amount;Currency;Remittance\r\n" + f"2026-03-10;{amount};EUR;Invoice {reference}\r\n".encode()


async def expected(tenant: Tenant, reference: str, amount: str) -> str:
    body = {
        "direction": "credit",
        "amount": amount,
        "currency": "EUR",
        "reference": reference,
        "dueDate": "2026-03-09",
    }
    answer = await tenant.post("/expected-transactions", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def pulled(tenant: Tenant, **given: Any) -> None:
    """Make a data source that is looked at every minute, and have it looked at now."""
    made = await tenant.post(PATH, {"schedule": "* * * * *", **given})
    assert made.status_code == 201, made.text
    assert (await tenant.post(f"{PATH}/{made.json()['id']}/sync")).status_code == 202


async def accepted(tenant: Tenant, count: int) -> list[dict[str, Any]]:
    async def enough() -> list[dict[str, Any]] | None:
        found = (await tenant.get("/matches", params={"status": "accepted"})).json()["data"]
        return found if len(found) >= count else None

    return await until(enough, seconds=90)


async def told(receiver: Receiver, secret: str, matches: list[dict[str, Any]]) -> None:
    """See that each match was told of once, in messages that the official library takes for genuine."""
    verifier, wanted = Webhook(secret), {match["id"] for match in matches}
    for received in await receiver.got(len(matches), seconds=90):
        verifier.verify(received.body, received.headers)
        assert received.message["type"] == "match.accepted"
    assert sorted(received.resource for received in receiver.received) == sorted(wanted)


async def test_a_file_in_a_bucket_and_one_on_an_sftp_server_become_matches_and_messages(
    service: Service, tmp_path: Path
) -> None:
    tenant, other = await service.tenant("acme"), await service.tenant("globex")
    for owner in (tenant, other):
        patched = await owner.request("PATCH", f"/tenants/{owner.id}/settings", json=SETTINGS)
        assert patched.status_code == 200, patched.text
    items = [await expected(tenant, "INV-2026-0815", "120.50"), await expected(tenant, "INV-2026-4711", "77.00")]
    await expected(other, "INV-2026-0815", "120.50")
    async with object_server() as bucket, sftp_server(tmp_path) as sftp, receiving() as receiver:
        made = await tenant.post("/webhooks", {"url": receiver.url, "events": ["match.accepted"]})
        assert made.status_code == 201, made.text
        bucket.put("in/march.csv", statement("INV-2026-0815", "120.50"))
        sftp.put("march.csv", statement("INV-2026-4711", "77.00"))
        await pulled(
            tenant,
            name="bucket",
            kind="s3",
            config={"bucket": bucket.name, "endpoint": bucket.url, "region": "eu-central-1", "prefix": "in/"},
            secret={"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY},
        )
        await pulled(
            tenant,
            name="bank",
            kind="sftp",
            config={"host": "127.0.0.1", "port": sftp.port, "username": USER, "hostKey": sftp.host_key},
            secret={"password": PASSWORD},
        )
        matches = await accepted(tenant, 2)
        assert sorted(match["legs"][0]["expectedTransactionId"] for match in matches) == sorted(items)
        await told(receiver, made.json()["secret"], matches)
    assert (await other.get("/matches")).json()["data"] == []
    assert (await other.get("/imports")).json()["data"] == []
