"""Erasures over HTTP: a person's texts are nowhere any more but where a duty or a file keeps them, which is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest

from payrec.domain.erasures import ERASED, Wanted
from payrec.services import erasures
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all
from payrec.tables.base import TENANT_METADATA
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import add_user, code, fields, in_control, until

pytestmark = pytest.mark.anyio

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


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


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


async def dumped(connection: Connection) -> dict[str, list[str]]:
    """Return every row of every table, as text."""
    return {
        name: [row["text"] for row in await fetch_all(connection, f'SELECT t::text AS text FROM "{name}" t')]  # noqa: S608 - our own names
        for name in TENANT_METADATA.tables
    }


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


async def still_proved(world: World, transaction_id: str, made: dict[str, Any]) -> None:
    """Look whether the audit log holds, says what happened and no more, and goes on."""
    verification = await verified(world)
    assert verification.holds
    assert verification.redacted.count == verification.erased_count == counts(made)["audit-log"] > 3
    # Of what is redacted nothing is proved, so nothing may be said in its place.
    change_id, ordinal = verification.erased[0]
    said = "UPDATE audit_record SET after = %s WHERE (change_id, ordinal) = (%s, %s)"
    await run(world, said, '{"amount": "1.00"}', change_id, ordinal)
    assert [one.kind for one in (await verified(world)).breaks] == ["record_changed"]
    await run(world, said, None, change_id, ordinal)
    log = await world.tenant.get("/audit-log", params={"resourceId": transaction_id})
    assert {(one["before"], one["after"], one["reason"]) for one in log.json()["data"]} == {(None, None, None)}
    [told] = (await world.tenant.get("/audit-log", params={"type": "privacy.erased"})).json()["data"]
    assert (told["resourceId"], told["after"]["erased"]) == (made["id"], made["erased"])
    # What is recorded from now on is sealed as ever.
    await world.service.factory.upkeep.create_audit_sealer().seal(world.scope, "test")
    assert (await verified(world)).holds


async def test_her_texts_are_nowhere_any_more(world: World) -> None:
    ids = await fill(world)
    before = await instant(world)
    source = {"name": "hers", "kind": "upload", "profile": {"columns": {"amount": f"Betrag {NAME}"}}}
    assert (await world.tenant.post("/data-sources", source)).status_code == 201
    there = {text: await where(world, text, bystander=True) for text in (NAME, IBAN, NOTE)}
    places_ = {
        "expected_transaction",
        "stated_row",
        "audit_record",
        "alias",
        "match",
        "idempotency",
        "webhook_delivery",
    }
    assert places_ <= (await where(world, NAME)).keys()
    sealed = await world.service.factory.upkeep.create_audit_sealer().seal(world.scope, "test")
    assert sealed > 5
    made = await erased(world, counterpartyName=NAME)
    assert (made["subject"], made["reason"]) == ("counterparty_name", f"asked for by {ERASED}")
    assert {"expected-transactions": 3, "incoming-transactions": 3}.items() <= counts(made).items()
    assert await where(world, NAME, NOTE, "Mueller Anna") == {"data_source": 1}
    # Other people, and other tenants, are as they were.
    assert "expected_transaction" in await where(world, OTHER)
    assert {text: await where(world, text, bystander=True) for text in (NAME, IBAN, NOTE)} == there
    # The account was told with the name, so it went from her transactions.
    assert await where(world, IBAN) == {}

    hers, paid = await world.expected(ids["hers"]), await world.incoming(ids["paid"])
    for one in (hers, paid):
        assert (one["counterpartyName"], one["counterpartyAccount"], one["metadata"]) == (None, None, {})
        assert one["amountMinor"] == 10000
    assert (hers["reference"], hers["description"]) == ("INV-2026-001", None)
    assert (paid["remittance"], paid["mandateId"]) == (None, None)
    mentioned = await world.incoming(ids["mentioned"])
    assert mentioned["remittance"] == f"INV-2026-002 von {ERASED}, Bonn"
    assert (await world.expected(ids["theirs"]))["description"] == f"for {ERASED}"
    for side in ("expected", "incoming"):
        listed = await world.tenant.get(f"/{side}-transactions", params={"counterparty": "anna"})
        assert [one["counterpartyName"] for one in listed.json()["data"]] == ([OTHER] if side == "expected" else [])
        then = await world.tenant.get(f"/{side}-transactions", params={"asOf": before, "limit": 200})
        assert then.status_code == 200
        assert not any(Wanted(text).is_in(then.text) for text in (NAME, NOTE))
    then = await world.tenant.get(f"/expected-transactions/{ids['hers']}", params={"asOf": before})
    assert (then.json()["version"], then.json()["counterpartyName"]) == (hers["version"] - 1, None)
    assert then.json()["reference"] == "INV-2026-001"

    await still_proved(world, ids["hers"], made)
    kept = {(one["resource"], one["why"]): (one["count"], one["until"]) for one in made["kept"]}
    assert kept.pop(("data-sources", "setting")) == (1, None)
    day = (datetime.now(UTC).date() + timedelta(days=401)).isoformat()
    assert kept == {("imports", "file"): (1, day)}
    await run(world, "DELETE FROM data_source")
    again = await erased(world, counterpartyName="anna mueller")
    assert (again["erased"], again["kept"]) == ([], [])
    assert (await world.tenant.get(PATH, params={"subject": "user"})).json()["data"] == []
    listed = (await world.tenant.get(PATH, params={"sort": "createdAt"})).json()["data"]
    assert listed == [made, again]
    assert (await world.tenant.get(f"{PATH}/{made['id']}")).json() == made
    assert (await world.bystander.get(PATH)).json()["data"] == []
    assert (await world.bystander.get(f"{PATH}/{made['id']}")).status_code == 404


async def test_matching_goes_on_by_what_is_left(world: World) -> None:
    expected = await world.expect(reference="INV-2026-001", counterpartyName=NAME, counterpartyAccount=IBAN)
    incoming = await world.receive(counterpartyName=NAME, remittance=f"INV-2026-001 {IBAN}", counterpartyAccount=IBAN)
    await world.run()
    stale = await world.proposal()
    await erased(world, counterpartyAccount="DE02 1203 0000 0000 2020 51", reason="asked for")
    assert await where(world, IBAN, NAME) == {}
    answer = await world.accept(stale)
    assert (answer.status_code, code(answer)) == (409, "stale_proposal")
    [keys] = await rows(world, "SELECT name_key, account_key, reference_key FROM expected_open")
    assert (keys["name_key"], keys["account_key"]) == (None, None)
    [line] = await rows(world, "SELECT name_key, account_key, reference_keys FROM incoming_open")
    assert (line["name_key"], line["account_key"]) == (None, None)
    assert keys["reference_key"] in line["reference_keys"]
    await world.run()
    match = await world.proposal()
    [leg] = match["legs"]
    assert (leg["expectedTransactionId"], leg["incomingTransactionId"]) == (expected, incoming)
    assert (await world.accept(match)).status_code == 200
    assert await rows(world, "SELECT FROM counterparty_name") == []


async def test_what_a_duty_keeps_stays_and_is_told(world: World) -> None:
    ids = await fill(world)
    settings = {"retention": {"recordsDays": 3650}}
    answer = await world.tenant.request("PATCH", f"/tenants/{world.tenant.id}/settings", json=settings)
    assert answer.status_code == 200, answer.text
    old = await world.expect("5.00", counterpartyName=NAME, dueDate="2011-01-01")
    made = await erased(world, counterpartyName=NAME)
    kept = {(one["resource"], one["why"]): (one["count"], one["until"]) for one in made["kept"]}
    # Of the day on which it was stored where it has no due date.
    last = (datetime.now(UTC).date() + timedelta(days=3650)).isoformat()
    booked = (date(2026, 3, 12) + timedelta(days=3650)).isoformat()
    assert kept["expected-transactions", "retention_duty"] == (3, last)
    assert kept["incoming-transactions", "retention_duty"] == (3, booked)
    assert kept["audit-log", "retention_duty"][0] > 0
    assert counts(made)["expected-transactions"] == 1
    assert (await world.expected(old))["counterpartyName"] is None
    assert (await world.expected(ids["hers"]))["counterpartyName"] == NAME
    # What is no voucher goes all the same.
    left = await where(world, NAME, NOTE)
    assert set(left) == {"expected_transaction", "incoming_transaction", "stated_row", "audit_record"}
    settings = {"retention": {"recordsDays": 0}}
    await world.tenant.request("PATCH", f"/tenants/{world.tenant.id}/settings", json=settings)
    await erased(world, counterpartyName=NAME)
    assert await where(world, NAME, NOTE) == {}


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, {("", "given_once")}),
        ({"counterpartyName": NAME, "counterpartyAccount": IBAN}, {("", "given_once")}),
        ({"counterpartyName": "Bo"}, {("/counterpartyName", "too_short")}),
        ({"counterpartyName": "erased"}, {("/counterpartyName", "too_short")}),
        ({"counterpartyAccount": "1-2"}, {("/counterpartyAccount", "too_short")}),
        ({"counterpartyAccount": "de89 3704 0044 0532 0130 00"}, {("/counterpartyAccount", "own_account")}),
        ({"userId": str(UUID(int=7))}, {("/userId", "unknown_user")}),
        ({"counterpartyName": NAME, "reason": ""}, {("/reason", "too_short")}),
    ],
)
async def test_what_cannot_be_erased_changes_nothing(
    world: World, body: dict[str, Any], wrong: set[tuple[str, str]]
) -> None:
    await world.expect(counterpartyName=NAME, account="DE89370400440532013000")
    await world.receive(counterpartyName="Bolt", account="DE89370400440532013000")
    answer = await erase(world, **body)
    assert (answer.status_code, fields(answer)) == (422, wrong), answer.text
    assert await rows(world, "SELECT FROM erasure") == []
    assert "expected_transaction" in await where(world, NAME)


async def test_a_run_that_has_read_it_is_waited_for_by_asking_again(world: World) -> None:
    await world.expect(counterpartyName=NAME)
    await run(
        world,
        """INSERT INTO job (id, created_at, updated_at, kind, status, actor, request_id, lease_until, attempts)
        VALUES (gen_random_uuid(), now(), now(), 'match', 'running', 'test', 'test', now() + interval '1 hour', 1)""",
    )
    body = {**REASON, "counterpartyName": NAME}
    answer = await world.tenant.request("POST", PATH, json=body, headers={"Idempotency-Key": "once"})
    assert (answer.status_code, code(answer)) == (409, "match_run_in_progress")
    await run(world, "UPDATE job SET status = 'failed', finished_at = now()")
    answer = await world.tenant.request("POST", PATH, json=body, headers={"Idempotency-Key": "once"})
    assert answer.status_code == 201
    again = await world.tenant.request("POST", PATH, json=body, headers={"Idempotency-Key": "once"})
    assert (again.json(), again.headers["idempotency-replayed"]) == (answer.json(), "true")
    assert await where(world, NAME) == {}


async def test_where_there_is_much_a_job_does_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasures, "ERASURE_BYTES_AT_ONCE", -1)
    ids = await fill(world)
    answer = await erase(world, counterpartyName=NAME)
    made = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (202, f"/jobs/{made['jobId']}")
    assert (made["status"], made["reason"], made["erased"]) == ("processing", f"asked for by {ERASED}", [])
    # Nobody who reads the job reads her name.
    started = (await world.tenant.get(answer.headers["location"])).text
    assert not Wanted(NAME).is_in(started)
    assert (await world.ended(made["jobId"]))["status"] == "succeeded"
    done = (await world.tenant.get(f"{PATH}/{made['id']}")).json()
    assert (done["status"], done["createdBy"]) == ("completed", made["createdBy"])
    assert {"expected-transactions": 3, "incoming-transactions": 3}.items() <= counts(done).items()
    assert await where(world, NAME, NOTE) == {}
    assert (await world.job(made["jobId"]))["params"] == {"erasureId": made["id"]}
    assert (await world.expected(ids["hers"]))["counterpartyName"] is None
    assert (await verified(world)).holds


async def test_of_a_user_the_id_stays(world: World) -> None:
    name, ada = await add_user(world.service, world.tenant, "approver")
    await world.expect(counterpartyName="Ada Lovelace", description="ask ada@lovelace.example, or Ada  Lovelace")
    matched = await world.expect("2.00")
    assert (await ada.post(f"/expected-transactions/{matched}/void", {"reason": "twice"})).status_code == 200
    users = await world.service.factory.create_user_service().of_tenant(UUID(world.tenant.id))
    [user_id] = [user["id"] for user in users if user["username"] == name]
    await in_control(
        world.service,
        "UPDATE app_user SET email = 'Ada@Lovelace.example', display_name = 'Ada Lovelace' WHERE id = %s",
        user_id,
    )
    answer = await erase(world, userId=str(user_id))
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    await in_control(world.service, "UPDATE app_user SET status = 'disabled' WHERE id = %s", user_id)
    # Nobody erases users of others.
    answer = await world.bystander.post(PATH, {**REASON, "userId": str(user_id)})
    assert (answer.status_code, fields(answer)) == (422, {("/userId", "unknown_user")})
    made = await erased(world, userId=str(user_id))
    assert (made["subject"], made["userId"], counts(made)["users"]) == ("user", str(user_id), 1)
    kept = {(one["resource"], one["why"]): one["until"] for one in made["kept"]}
    assert kept == {("users", "identity_provider"): None, ("audit-log", "append_only"): None}
    assert await where(world, "Ada Lovelace", "ada@lovelace.example") == {}
    [item] = [one for one in (await world.tenant.get("/expected-transactions")).json()["data"] if one["id"] != matched]
    assert item["description"] == f"ask {ERASED}, or {ERASED}"
    async with world.service.factory.context.database.control(readonly=True) as connection:
        [stored] = await fetch_all(connection, "SELECT * FROM app_user WHERE id = %s", (user_id,))
    assert stored["username"] == f"erased-{user_id}"
    assert (stored["email"], stored["display_name"], stored["subject"]) == (None, None, None)
    assert stored["status"] == "disabled"
