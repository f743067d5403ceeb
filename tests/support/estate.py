"""A tenant environment full of everything, of which every text and id can be told apart from all others."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from support.events import all_sealed
from support.service import Tenant

_IDENTIFIED = {
    "event": "id",
    "expected_snapshot": "id",
    "expected_transaction": "id",
    "incoming_transaction": "id",
    "import": "id",
    "job": "id",
    "match": "id",
    "webhook": "id",
}


@dataclass(slots=True, kw_only=True)
class Place:
    """One tenant environment and what is in it.

    ``secret`` is in every text of it but those of one transaction a side, which say ``bait``: what others may know and
    ask for. Of each kind of thing one id is bait too. All other ids are secrets.
    """

    tenant: Tenant
    environment: str
    secret: str
    bait: str
    api_key: str = ""
    bait_ids: dict[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)

    @property
    def schema(self) -> str:
        """Name of the schema."""
        return f"{self.tenant.slug}_{self.environment}"

    async def post(self, path: str, body: Any, **options: Any) -> Any:
        """POST as the administrator and return the answer's body, which must be a success."""
        answer = await self.tenant.post(path, body, self.environment, **options)
        assert answer.status_code in {200, 201, 202}, answer.text
        return answer.json()


async def fill(tenant: Tenant, environment: str, url: str) -> Place:
    """Put one of everything into an environment; ``url`` is a superuser's, to collect the ids."""
    tag = secrets.token_hex(6)
    place = Place(tenant=tenant, environment=environment, secret=f"SECRET{tag}", bait=f"BAIT{tag}")
    key = await place.post("/auth/api-keys", {"name": place.secret, "read": True, "write": True})
    other = await place.post("/auth/api-keys", {"name": place.secret, "read": True})
    place.api_key = key["apiKey"]
    for number, mark in enumerate((place.bait, place.secret, place.secret)):
        await _transactions(place, mark, number)
    await _upload(place)
    await _compare(place)
    assert (await place.post("/matches/match", {}))["counts"]["proposed"] == 3
    listed = (await tenant.get("/matches", environment)).json()["data"]
    await place.post(f"/matches/{listed[0]['id']}/accept", {"reason": place.secret})
    job = await place.post("/jobs", {"kind": "match", "params": {"incomingFilter": {"q": place.secret}}})
    await _finished(place, job["id"])
    for _ in range(2):
        hook = {"url": "https://192.0.2.1.example/", "events": ["*"], "description": place.secret}
        made = await place.post("/webhooks", hook)
        answer = await tenant.request("PATCH", f"/webhooks/{made['id']}", environment, json={"status": "disabled"})
        assert answer.is_success, answer.text
    await all_sealed(url, place.schema)
    await _collect(place, url, [key, other])
    return place


async def _transactions(place: Place, mark: str, number: int) -> None:
    money = {"direction": "credit", "amountMinor": 1000 + number, "currency": "EUR"}
    texts = ("counterpartyName", "counterpartyAccount", "account", "groupKey")
    said = {name: f"{mark} {name} {number}" for name in texts} | {"metadata": {mark: mark}}
    expected = {**money, **said, "externalId": f"{mark}-{number}", "reference": f"INV-{mark}-{number}"}
    await place.post("/expected-transactions", {**expected, "description": mark, "dueDate": "2024-03-04"})
    incoming = {**money, **said, "externalId": f"{mark}-{number}", "bookingDate": "2024-03-04"}
    await place.post("/incoming-transactions", {**incoming, "remittance": f"Invoice INV-{mark}-{number}"})


async def _upload(place: Place) -> None:
    for mark, name in ((place.bait, "bait.json"), (place.secret, f"{place.secret}.json")):
        record = {
            "direction": "debit",
            "amount": "7.00",
            "currency": "EUR",
            "bookingDate": "2024-03-05",
            "externalId": f"{mark}-uploaded",
            "remittance": mark,
        }
        content = json.dumps([record, {"remittance": mark}]).encode()
        await place.post("/incoming-transactions/upload", None, files={"file": (name, content)})


async def _compare(place: Place) -> None:
    for mark, name in ((place.bait, "bait.json"), (place.secret, f"{place.secret}.json")):
        record = {"externalId": f"{mark}-missing", "openAmount": "7.00", "currency": "EUR"}
        totals = json.dumps([{"currency": "EUR", "count": 1, "amount": "7.00"}])
        said = {"takenAt": datetime.now(UTC).isoformat(), "controlTotals": totals}
        files = {"file": (name, json.dumps([record]).encode())}
        await place.post("/expected-transactions/snapshots", None, files=files, data=said)


async def _finished(place: Place, job_id: str) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + 20
    while True:
        job = (await place.tenant.get(f"/jobs/{job_id}", place.environment)).json()
        if job["status"] not in {"queued", "running"}:
            assert job["status"] == "succeeded", job
            return
        assert loop.time() < until
        await asyncio.sleep(0.02)


async def _collect(place: Place, url: str, keys: list[dict[str, Any]]) -> None:
    """Find every UUID of the schema; one of each kind of thing is bait, the rest are secrets."""
    ids: set[str] = set()
    async with await psycopg.AsyncConnection.connect(url) as connection:
        columns = await connection.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') AND a.atttypid = 'uuid'::regtype",
            (place.schema,),
        )
        for table, column in await columns.fetchall():
            name = sql.Identifier(place.schema, table)
            query = sql.SQL("SELECT DISTINCT {}::text FROM {}").format(sql.Identifier(column), name)
            ids |= {row[0] for row in await (await connection.execute(query)).fetchall() if row[0] is not None}
        for table, column in _IDENTIFIED.items():
            query = sql.SQL("SELECT {0}::text FROM {1} ORDER BY {0} LIMIT 1").format(
                sql.Identifier(column), sql.Identifier(place.schema, table)
            )
            row = await (await connection.execute(query)).fetchone()
            assert row is not None, table
            place.bait_ids[table] = row[0]
        environments = await connection.execute(
            "SELECT id::text FROM control.tenant_environment WHERE schema_name = %s", (place.schema,)
        )
        [(place.bait_ids["environment"],)] = await environments.fetchall()
    place.bait_ids["api_key"] = keys[0]["id"]
    place.secrets = ids - set(place.bait_ids.values())
    place.secrets |= {place.secret, place.api_key, keys[0]["publicId"], keys[1]["id"], keys[1]["publicId"]}


async def digest(url: str, place: Place) -> dict[str, str]:
    """Return a digest of every table of the environment, and of what the control schema says about it."""
    found: dict[str, str] = {}
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (place.schema,))
        parts = {
            name: sql.SQL("SELECT t FROM {} t").format(sql.Identifier(place.schema, name))
            for (name,) in await cursor.fetchall()
        }
        tenant, environment = sql.Literal(place.tenant.id), sql.Literal(place.environment)
        for name in ("api_key", "tenant_environment", "audit_record"):
            parts[f"control.{name}"] = sql.SQL("SELECT t FROM {} t WHERE tenant_id = {} AND environment = {}").format(
                sql.Identifier("control", name), tenant, environment
            )
        parts["control.app_user"] = sql.SQL("SELECT t FROM control.app_user t WHERE tenant_id = {}").format(tenant)
        for name, query in parts.items():
            summed = sql.SQL(
                "SELECT md5(coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '')) FROM ({}) AS q (t)"
            )
            row = await (await connection.execute(summed.format(query))).fetchone()
            assert row is not None
            found[name] = row[0]
    return found
