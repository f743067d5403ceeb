"""Erasures over HTTP: a person's texts are nowhere any more but where a duty or a file keeps them, which is told."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest

from payrec.domain.erasures import ERASED, Wanted
from payrec.models.erasures import ErasureStatus
from payrec.services import erasures
from payrec.storage.rows import fetch_all
from support.erasures import (
    IBAN,
    NAME,
    NOTE,
    OTHER,
    PATH,
    REASON,
    counts,
    erase,
    erased,
    fill,
    instant,
    rows,
    run,
    verified,
    where,
)
from support.matching_world import TABLES, WORKER_LEAVES, World, matching_world
from support.service import Service, Tenant
from support.wire import add_user, code, fields, in_control

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


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
    # Who did it, and what, is proved all the same.
    [row] = await world.sql("SELECT actor FROM audit_record WHERE (change_id, ordinal) = (%s, %s)", change_id, ordinal)
    for actor, kinds in (("user:other", ["record_changed"]), (row["actor"], [])):
        done = "UPDATE audit_record SET actor = %s WHERE (change_id, ordinal) = (%s, %s)"
        await run(world, done, actor, change_id, ordinal)
        assert [one.kind for one in (await verified(world)).breaks] == kinds
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
    assert sealed.records > 5
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


async def accepted(world: World, transaction_id: str) -> str:
    """Accept what was proposed for a line; return its path."""
    [match] = [m for m in await world.matches() if m["legs"][0]["incomingTransactionId"] == transaction_id]
    assert (await world.accept(match)).json()["status"] == "accepted"
    return f"/matches/{match['id']}"


async def test_what_the_books_stand_on_stays_and_is_told(world: World) -> None:
    ids = await fill(world)
    match = await accepted(world, ids["paid"])
    path = f"/expected-transactions/{ids['hers']}"
    assert (await world.tenant.request("PATCH", path, json={"metadata": {"contact": NAME}})).status_code == 200
    made = await erased(world, counterpartyName=NAME)
    kept = {(one["resource"], one["why"]): (one["count"], one["until"]) for one in made["kept"]}
    due_day, booked = ((date(2026, 3, day) + timedelta(days=3650)).isoformat() for day in (10, 12))
    assert kept["expected-transactions", "retention_duty"] == (1, due_day)
    assert kept["incoming-transactions", "retention_duty"] == (1, booked)
    assert kept["audit-log", "retention_duty"] == (1, booked)
    for side, name in (("expected", "hers"), ("incoming", "paid")):
        assert (await world.tenant.get(f"/{side}-transactions/{ids[name]}")).json()["counterpartyName"] is not None
    # What nothing was decided about goes, and so does all that is no voucher.
    left = await where(world, NAME, NOTE)
    assert left == {"expected_transaction": 1, "stated_row": 1, "incoming_transaction": 1, "audit_record": 1}
    assert (await verified(world)).holds

    # A line of a locked period stays as well, decided or not. With nothing else to erase, nothing is done.
    key = {"Idempotency-Key": "late"}
    line = {"direction": "credit", "amount": "4.00", "currency": "EUR", "bookingDate": "2026-03-12"}
    body = {**line, "counterpartyName": NAME}
    late = await world.tenant.request("POST", "/incoming-transactions", json=body, headers=key)
    lock = await world.tenant.post("/period-locks", {"through": "2026-03-31", "reason": "March", "override": True})
    assert (late.status_code, lock.status_code) == (201, 201)
    before = await world.digest(*sorted(set(TABLES) - WORKER_LEAVES - {"change"}))
    answer = await erase(world, counterpartyName=NAME)
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    told = {(one["resource"], one["why"]): (one["count"], one["until"]) for one in answer.json()["kept"]}
    assert told["incoming-transactions", "retention_duty"] == (2, booked)
    assert told["idempotency-keys", "retention_duty"][0] == 1
    assert await world.digest(*sorted(set(TABLES) - WORKER_LEAVES - {"change"})) == before
    again = await world.tenant.request("POST", "/incoming-transactions", json=body, headers=key)
    assert (again.json(), again.headers["idempotency-replayed"]) == (late.json(), "true")

    # The duty is a setting, and what is taken back is no voucher.
    for verb, path in (("reopen", lock.headers["location"]), ("reverse", match)):
        assert (await world.tenant.post(f"{path}/{verb}", {"reason": "wrong"})).status_code == 200
    await erased(world, counterpartyName=NAME)
    assert await where(world, NAME, NOTE) == {}
    due = await world.expect("8.00", counterpartyName=NAME, dueDate="2026-03-01")
    leg = {"expectedTransactionId": due, "incomingTransactionId": await world.receive("8.00"), "amountMinor": 800}
    assert (await world.tenant.post("/matches", {"legs": [leg], "reason": "paid"})).status_code == 201
    assert (await erase(world, counterpartyName=NAME)).status_code == 409
    settings = f"/tenants/{world.tenant.id}/settings"
    for days in (100, None):
        kept_for = {"retention": {"auditDays": days}}
        assert (await world.tenant.request("PATCH", settings, json=kept_for)).status_code == 200
        if days:
            await erased(world, counterpartyName=NAME)
    assert await where(world, NAME) == {}


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


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_a_file_that_is_not_read_yet_is_told(world: World, status: str) -> None:
    await world.expect(counterpartyName=NAME)
    await run(
        world,
        """INSERT INTO job (id, created_at, updated_at, kind, status, actor, request_id, lease_until, attempts)
        VALUES (gen_random_uuid(), now(), now(), 'import', %s, 'test', 'test', now() + interval '1 hour', 1)""",
        status,
    )
    made = await erased(world, counterpartyName=NAME)
    assert made["kept"] == [{"resource": "imports", "why": "being_written", "count": 1, "until": None}]
    await run(world, "UPDATE job SET status = 'failed', finished_at = now()")
    assert (await erased(world, counterpartyName=NAME))["kept"] == []


async def listed(world: World) -> dict[str, list[str]]:
    """Return the ids of the erasures of each status."""
    found = {}
    for status in get_args(ErasureStatus):
        answer = await world.tenant.get(PATH, params={"status": status})
        found[status] = [one["id"] for one in answer.json()["data"]]
    return found


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
    ended = await world.ended(made["jobId"])
    assert ended["status"] == "succeeded"
    got = await world.tenant.get(f"{PATH}/{made['id']}")
    done = got.json()
    assert (done["status"], done["createdBy"]) == ("completed", made["createdBy"])
    assert await listed(world) == {"processing": [], "completed": [made["id"]], "failed": []}
    # Something else is told of it, so it is another version.
    assert (answer.headers["etag"], made["version"], made["updatedAt"]) == ('"1"', 1, made["createdAt"])
    assert (got.headers["etag"], done["version"], done["updatedAt"]) == ('"2"', 2, ended["finishedAt"])
    assert {"expected-transactions": 3, "incoming-transactions": 3}.items() <= counts(done).items()
    assert await where(world, NAME, NOTE) == {}
    assert (await world.job(made["jobId"]))["params"] == {"erasureId": made["id"]}
    assert (await world.expected(ids["hers"]))["counterpartyName"] is None
    assert (await verified(world)).holds


async def test_what_a_job_cannot_open_any_more_is_to_be_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a change of ENCRYPTION_KEY while the job waited."""
    monkeypatch.setattr(erasures, "ERASURE_BYTES_AT_ONCE", -1)
    with monkeypatch.context() as patch:
        patch.setattr(erasures.ErasureService, "_sealed", lambda *_: b64encode(b"\1" * 61).decode())
        made = (await erase(world, counterpartyName=NAME)).json()
        problem = (await world.ended(made["jobId"]))["error"]
    assert (problem["code"], problem["detail"]) == (
        "invalid_state",
        "what was to be erased cannot be read any more: ask for the erasure again",
    )
    assert (await world.tenant.get(f"{PATH}/{made['id']}")).json()["status"] == "failed"


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


@pytest.mark.parametrize(
    "written", ["AE070331234567890123456", "AE07\u00a00331\u00a02345\u00a06789\u00a00123\u00a0456"]
)
async def test_an_account_goes_whatever_its_letters_and_the_blanks_between_them(world: World, written: str) -> None:
    line = await world.receive(remittance=f"from {written}")
    other = await world.receive(metadata={"from": written.replace("0123", "01\t23")})
    made = await erased(world, counterpartyAccount="AE07 0331 2345 6789 0123 456")
    assert counts(made)["incoming-transactions"] == 2
    assert (await world.incoming(line))["remittance"] == f"from {ERASED}"
    assert (await world.incoming(other))["metadata"] == {"from": ERASED}
