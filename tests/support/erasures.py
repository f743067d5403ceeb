"""Erasures as tests ask for them, and where texts are left in the whole of an environment."""

from __future__ import annotations

from typing import Any

import httpx2
from psycopg import sql

from payrec.domain.erasures import Wanted
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all
from support.matching_world import World
from support.wire import until

PATH = "/privacy/erasures"
NAME = "Anna Müller"
OTHER = "Hannah Müller"
IBAN = "DE02120300000000202051"
NOTE = "since 1999 in Bonn"
"""What stands only in texts of hers, and does not name her."""
REASON = {"reason": "asked for by Anna Mueller"}

ALIAS = """
    INSERT INTO alias (id, statement_key, counterparty_key, created_at, updated_at, status, statement_name,
        counterparty_name)
    VALUES (gen_random_uuid(), %s, %s, now(), now(), 'active', %s, %s)
"""
LESSONS = """
    INSERT INTO alias_lesson (match_id, alias_id, counterparty_key, taught_at, change_id, agrees, taught_by,
        counterparty_name)
    SELECT gen_random_uuid(), id, 2, now(), gen_random_uuid(), true, 'user:1', %s FROM alias
"""
DELIVERY = """
    INSERT INTO webhook_delivery (webhook_id, position, event_id, resource_id, created_at, status, type,
        response_excerpt)
    VALUES (gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(), now(), 'failed', 'match.accepted', %s)
"""


async def erase(world: World, **body: Any) -> httpx2.Response:
    return await world.tenant.post(PATH, {**REASON, **body})


async def erased(world: World, **body: Any) -> dict[str, Any]:
    answer = await erase(world, **body)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{PATH}/{answer.json()['id']}"
    return dict(answer.json())


def counts(erasure: dict[str, Any]) -> dict[str, int]:
    return {one["resource"]: one["count"] for one in erasure["erased"]}


async def rows(world: World, query: str, *parameters: Any) -> list[dict[str, Any]]:
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        return await fetch_all(connection, query, parameters)


async def run(world: World, statement: str, *parameters: Any) -> None:
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute(statement.encode(), parameters or None)


async def instant(world: World) -> str:
    [row] = await rows(world, "SELECT clock_timestamp() AS at")
    return str(row["at"].isoformat())


_TABLES = """
    SELECT c.relname AS name, array_agg(a.attname) FILTER (WHERE a.atttypid = 'bytea'::regtype) AS files
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    GROUP BY c.relname ORDER BY c.relname
"""


async def dumped(connection: Connection) -> dict[str, list[str]]:
    """Return every row of every table that the schema has, as text, and what is in files as the text that it is."""
    found = {}
    for table in await fetch_all(connection, _TABLES):
        files = [sql.SQL("encode({}, 'escape')").format(sql.Identifier("t", column)) for column in table["files"] or ()]
        query = sql.SQL("SELECT concat_ws(E'\\n', {}) AS text FROM {} t").format(
            sql.SQL(", ").join([sql.SQL("t::text"), *files]), sql.Identifier(table["name"])
        )
        found[table["name"]] = [row["text"] for row in await fetch_all(connection, query)]
    return found


async def where(world: World, *texts: str, bystander: bool = False) -> dict[str, int]:
    """Return how many rows of which tables still hold any of these; an account or a name however it is written."""
    scope = world.bystander_scope if bystander else world.scope
    wanted = [Wanted(text, is_account=text == IBAN) for text in texts]
    async with world.service.factory.context.database.tenant(scope) as connection:
        tables = await dumped(connection)
    found = {name: sum(any(w.is_in(row) for w in wanted) for row in all_) for name, all_ in tables.items()}
    return {name: count for name, count in found.items() if count}


async def fill(world: World) -> dict[str, str]:
    """Have her in every place, and somebody whose name is nearly the same beside her."""
    invoice = {"reference": "INV-2026-001", "counterpartyName": NAME, "counterpartyAccount": IBAN}
    hers = await world.expect(**invoice, description=NOTE, metadata={"contact": NOTE})
    theirs = await world.expect(
        "70.00", reference="INV-2026-002", counterpartyName=OTHER, description="for Anna  Mueller"
    )
    paid = await world.receive(
        counterpartyName="MUELLER ANNA", counterpartyAccount=IBAN, remittance=f"INV-2026-001 {NOTE}", mandateId="M-1"
    )
    mentioned = await world.receive("70.00", counterpartyName="Bolt", remittance="INV-2026-002 von Anna Müller, Bonn")
    file = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12"}
    await world.upload([{**file, "amount": "9.00", "counterpartyName": NAME}, {**file, "amount": f"{NAME}"}])
    for tenant in (world.bystander, world.tenant):
        body = {
            "direction": "credit",
            "amount": "3.00",
            "currency": "EUR",
            "counterpartyName": NAME,
            "description": NOTE,
        }
        answer = await tenant.request("POST", "/expected-transactions", json=body, headers={"Idempotency-Key": "k"})
        changed = {"counterpartyName": "Anna Mueller", "description": None}
        path = answer.headers["location"]
        assert (await tenant.request("PATCH", path, json=changed)).status_code == 200
    started = await world.tenant.post(
        "/jobs", {"kind": "export", "params": {"resource": "incoming-transactions", "format": "csv"}}
    )

    async def ended() -> bool | None:
        return (await world.tenant.get(started.headers["location"])).json()["status"] == "succeeded" or None

    await until(ended)
    await run(world, "INSERT INTO counterparty_name VALUES (7, %s, 'ANNA MULLER')", NAME)
    for number, (said, meant) in enumerate((("A. M.", NAME), ("H. M.", OTHER))):
        await run(world, ALIAS, number, number, said, meant)
    await run(world, LESSONS, NAME)
    await run(world, DELIVERY, f"no such customer: {NAME}")
    counted = await world.run()
    assert counted["counts"]["proposed"] >= 2
    for match in await world.matches(status="proposed"):
        if match["legs"][0]["incomingTransactionId"] == mentioned:
            answer = await world.tenant.post(f"/matches/{match['id']}/reject", {"reason": f"{NAME} did not pay it"})
            assert answer.status_code == 200
    return {"hers": hers, "theirs": theirs, "paid": paid, "mentioned": mentioned}


async def verified(world: World) -> Any:
    return await world.service.factory.upkeep.create_audit_verification_service().verify(world.scope)
