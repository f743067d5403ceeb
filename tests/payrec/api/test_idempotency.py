"""The same request again has no second effect, and is answered as the first one was."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from support.ages import aged
from support.service import PEPPER, Service, Tenant, make_config, running
from support.wire import add_key, add_user, ask, code, count, in_control, rows

pytestmark = pytest.mark.anyio

PATH = "/expected-transactions"
UPLOAD = "/incoming-transactions/upload"
BODY = {"direction": "credit", "amountMinor": 100, "currency": "EUR"}
INCOMING = {**BODY, "bookingDate": "2025-01-02"}
RAW = {"Content-Type": "application/octet-stream"}
LINES = b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02","externalId":"%s"}\n'


def key(value: str = "") -> dict[str, str]:
    return {"Idempotency-Key": value or str(uuid4())}


def compared(answer: httpx2.Response) -> tuple[Any, ...]:
    """Return what a replay has in common with the first answer."""
    own = {"date", "x-request-id", "idempotency-replayed"}
    return answer.status_code, answer.text, {k: v for k, v in answer.headers.items() if k not in own}


async def twice(tenant: Tenant, method: str, path: str, **options: Any) -> tuple[httpx2.Response, httpx2.Response]:
    headers = {**key(), **options.pop("headers", {})}
    first = await tenant.request(method, path, headers=headers, **options)
    again = await tenant.request(method, path, headers=headers, **options)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    return first, again


@pytest.mark.parametrize(("path", "body"), [(PATH, BODY), ("/incoming-transactions", INCOMING)])
async def test_a_replay_is_the_first_answer(service: Service, acme: Tenant, path: str, body: dict[str, Any]) -> None:
    table = path.strip("/").replace("-", "_").rstrip("s")
    before = await count(service, acme, table)
    first, again = await twice(acme, "POST", path, json=body)
    assert first.status_code == 201
    assert compared(again) == compared(first)
    assert await count(service, acme, table) == before + 1


async def test_a_replayed_patch_is_the_first_answer(acme: Tenant) -> None:
    path = f"/tenants/{acme.id}/settings"
    before = (await acme.get(path)).headers["etag"]
    first, again = await twice(acme, "PATCH", path, json={"locale": "fr"}, headers={"If-Match": before})
    assert compared(again) == compared(first)
    assert (await acme.get(path)).headers["etag"] == first.headers["etag"] != before


async def test_a_replayed_tenant_is_the_first_answer_and_one_tenant(acme: Tenant) -> None:
    admin = {"username": "again", "password": "correct horse"}
    first, again = await twice(acme, "POST", "/tenants", json={"name": "Again", "admin": admin})
    assert (first.status_code, first.json()["admin"]["username"]) == (201, "again")
    assert compared(again) == compared(first)


async def test_a_replayed_key_comes_without_its_secret(service: Service, acme: Tenant) -> None:
    first, again = await twice(acme, "POST", "/auth/api-keys", json={"read": True})
    made = first.json()
    secret = made.pop("apiKey")
    assert (again.status_code, again.json()) == (201, made)
    assert again.headers["cache-control"] == "no-store"
    async with service.factory.context.database.control(readonly=True) as connection:
        stored = await (await connection.execute("SELECT body, headers FROM idempotency")).fetchall()
    assert stored
    assert secret.partition(".")[2] not in str(stored)


async def test_a_replayed_upload_is_the_first_answer(acme: Tenant) -> None:
    first, again = await twice(
        acme, "POST", "/incoming-transactions/upload?format=jsonl", headers=RAW, content=LINES % b"replayed"
    )
    assert first.status_code == 201
    assert compared(again) == compared(first)


async def test_another_body_with_the_key_is_refused(acme: Tenant) -> None:
    for path, body, other in (
        (PATH, BODY, {**BODY, "amountMinor": 101}),
        ("/auth/api-keys", {"read": True}, {"write": True}),
        ("/tenants", {"name": "Other Body"}, {"name": "Other Body", "slug": "else"}),
    ):
        headers = key()
        assert (await acme.post(path, body, headers=headers)).status_code == 201
        refused = await acme.post(path, other, headers=headers)
        assert (refused.status_code, code(refused)) == (422, "idempotency_key_reused")
        # What is wrong with the other body is not looked at.
        for wrong in ({}, {"amount": "1.000", "direction": "credit", "currency": "EUR"}, {"name": "-", "read": False}):
            assert code(await acme.post(path, wrong, headers=headers)) == "idempotency_key_reused"


async def test_another_file_or_option_with_the_key_is_refused(acme: Tenant) -> None:
    headers = {**key(), **RAW}
    path = "/incoming-transactions/upload?format=jsonl"
    assert (await acme.post(path, headers=headers, content=LINES % b"first")).status_code == 201
    assert code(await acme.post(path, headers=headers, content=LINES % b"other")) == "idempotency_key_reused"
    strict = await acme.post(f"{path}&mode=all_or_nothing", headers=headers, content=LINES % b"first")
    assert code(strict) == "idempotency_key_reused"
    wrong = await acme.post(f"{path}&mode=nope", headers=headers, content=LINES % b"first")
    assert code(wrong) == "idempotency_key_reused"


@pytest.mark.parametrize("path", [PATH, "/auth/api-keys", "/incoming-transactions/upload?format=jsonl", "/tenants"])
async def test_twenty_equal_posts_at_once_have_one_effect(service: Service, acme: Tenant, path: str) -> None:
    options: dict[str, Any] = {"json": {PATH: BODY, "/auth/api-keys": {"read": True}}.get(path, {"name": "Twenty"})}
    headers = key()
    if "upload" in path:
        options = {"content": LINES % b"twenty"}
        headers |= RAW
    table = {PATH: "expected_transaction", "/auth/api-keys": "control.api_key", "/tenants": "control.tenant"}
    before = await _effects(service, acme, table.get(path, "import"))
    answers = await asyncio.gather(*(acme.post(path, headers=headers, **options) for _ in range(20)))
    statuses = Counter(a.status_code for a in answers)
    # Routes of several transactions keep a 202 with the row that they create first.
    assert set(statuses) <= {201, 409} | ({202} if path not in {PATH, "/auth/api-keys"} else set())
    assert statuses[201] >= 1
    assert {code(a) for a in answers if a.status_code == 409} <= {"idempotency_in_progress"}
    assert len({a.json()["id"] for a in answers if a.status_code != 409}) == 1
    assert await _effects(service, acme, table.get(path, "import")) == before + 1
    last = await acme.post(path, headers=headers, **options)
    assert (last.status_code, last.headers["idempotency-replayed"]) == (201, "true")


async def _effects(service: Service, tenant: Tenant, table: str) -> int:
    if not table.startswith("control."):
        return await count(service, tenant, table)
    async with service.factory.context.database.control(readonly=True) as connection:
        cursor = await connection.execute(f"SELECT count(*) AS n FROM {table}")  # type: ignore[arg-type]  # noqa: S608 - ours
        return int((await cursor.fetchone() or {"n": -1})["n"])


async def test_a_request_that_still_runs_is_told(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    from payrec.services.work import Unit  # noqa: PLC0415 - only to hold a transaction open

    entered, leave = asyncio.Event(), asyncio.Event()
    original = Unit.save_answer

    async def held(self: Unit, request: Any) -> None:
        await original(self, request)
        entered.set()
        await leave.wait()

    headers = key()
    with monkeypatch.context() as patch:
        patch.setattr(Unit, "save_answer", held)
        running = asyncio.create_task(acme.post(PATH, BODY, headers=headers))
        await entered.wait()
    same, other = [await acme.post(PATH, body, headers=headers) for body in (BODY, {**BODY, "amountMinor": 5})]
    invalid = await acme.post(PATH, {}, headers=headers)
    leave.set()
    assert [code(a) for a in (same, other, invalid)] == ["idempotency_in_progress"] * 3
    first = await running
    assert compared(await acme.post(PATH, BODY, headers=headers)) == compared(first)


async def test_keys_are_apart_for_principals_paths_and_environments(acme: Tenant, service: Service) -> None:
    headers = key("shared")
    api_key = await add_key(acme)
    place = {"X-Tenant-Id": acme.id, "X-Environment": "production", "X-Api-Key": api_key["apiKey"], **headers}
    _, user = await add_user(service, acme, "admin")
    answers = [
        await acme.post(PATH, BODY, headers=headers),
        await acme.post(PATH, BODY, "test", headers=headers),
        await acme.post("/incoming-transactions", INCOMING, headers=headers),
        await ask(acme, "POST", PATH, place, json=BODY),
        await user.post(PATH, BODY, headers=headers),
    ]
    assert [a.status_code for a in answers] == [201] * 5
    assert all("idempotency-replayed" not in a.headers for a in answers)
    assert len({a.json()["id"] for a in answers}) == 5


async def test_keys_of_the_control_schema_are_apart_for_environments_too(acme: Tenant) -> None:
    headers = key()
    made = [await acme.post("/auth/api-keys", {"read": True}, e, headers=headers) for e in ("test", "production")]
    assert [m.json()["environment"] for m in made] == ["test", "production"]
    assert all("apiKey" in m.json() for m in made)


@pytest.mark.parametrize(
    ("path", "wrong", "right"),
    [
        (PATH, {**BODY, "amount": "1.00"}, BODY),
        ("/auth/api-keys", {"read": False}, {"read": True}),
        ("/tenants", {"name": "Released", "slug": "Released"}, {"name": "Released"}),
    ],
)
async def test_an_error_releases_the_key(acme: Tenant, path: str, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    headers = key()
    refused = await acme.post(path, wrong, headers=headers)
    assert refused.status_code == 422
    made = await acme.post(path, right, headers=headers)
    assert (made.status_code, "idempotency-replayed" in made.headers) == (201, False)


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (PATH, {**BODY, "externalId": "taken"}, "duplicate_external_id"),
        ("/incoming-transactions", {**INCOMING, "externalId": "taken"}, "duplicate_external_id"),
        ("/tenants", {"name": "Acme", "slug": "acme"}, "slug_taken"),
    ],
)
async def test_a_final_conflict_is_kept_as_the_answer(
    acme: Tenant, path: str, body: dict[str, Any], reason: str
) -> None:
    await acme.post(path, body)
    first, again = await twice(acme, "POST", path, json=body)
    assert (first.status_code, code(first)) == (409, reason)
    assert compared(again) == compared(first)


async def test_an_unreadable_upload_releases_the_key(acme: Tenant) -> None:
    headers = {**key(), **RAW}
    path = "/incoming-transactions/upload"
    assert code(await acme.post(path, headers=headers, content=b"\x00\x01\x02")) == "unreadable_file"
    assert code(await acme.post(path, headers=headers, content=b"\x00\x01\x02")) == "unreadable_file"
    made = await acme.post(f"{path}?format=jsonl", headers=headers, content=LINES % b"released")
    assert made.status_code == 201


@pytest.mark.parametrize("value", ["", "a b", "x" * 256, "tab\there", "ä"])
async def test_a_malformed_key_is_400(acme: Tenant, value: str) -> None:
    headers = [*acme.headers().items(), ("Idempotency-Key", value.encode("latin-1"))]
    answer = await acme.http.post(acme.base_url + PATH, headers=headers, json=BODY)
    assert (answer.status_code, code(answer)) == (400, "invalid_idempotency_key")


async def test_the_longest_key_is_taken_and_a_second_one_is_not(acme: Tenant) -> None:
    assert (await acme.post(PATH, BODY, headers=key("~" * 255))).status_code == 201
    both = [*acme.headers().items(), ("Idempotency-Key", "one"), ("Idempotency-Key", "one")]
    answer = await acme.http.post(acme.base_url + PATH, headers=both, json=BODY)
    assert code(answer) == "invalid_idempotency_key"


async def test_reading_takes_no_key(acme: Tenant) -> None:
    headers = key()
    for _ in range(2):
        assert "idempotency-replayed" not in (await acme.get(PATH, headers=headers)).headers


async def test_a_password_leaves_no_plain_fingerprint(service: Service, acme: Tenant) -> None:
    """The stored fingerprint is keyed: without the server's pepper no guess of the password can be checked."""
    import hashlib  # noqa: PLC0415 - only here

    body = b'{"name":"Peppered","admin":{"username":"p","password":"hunter2hunter2"}}'
    headers = {**key(), "Content-Type": "application/json"}
    assert (await acme.post("/tenants", headers=headers, content=body)).status_code == 201
    async with service.factory.context.database.control(readonly=True) as connection:
        stored = await (await connection.execute("SELECT fingerprint FROM idempotency")).fetchall()
    assert {hashlib.sha256(b).digest() for b in (body, b"\x00" + body)}.isdisjoint(
        bytes(r["fingerprint"]) for r in stored
    )


async def test_a_repetition_after_the_pepper_was_changed_is_still_one(database: EmbeddedDatabase) -> None:
    headers = key()
    upload = {"headers": {**headers, **RAW}, "content": LINES % b"rotated"}
    async with running(make_config(database)) as before:
        tenant = await before.tenant("rotated")
        first = await tenant.post(PATH, BODY, headers=headers)
        uploaded = await tenant.post(UPLOAD, **upload)
        assert (first.status_code, uploaded.status_code) == (201, 201)
    changed = make_config(
        database,
        api_key_pepper="a pepper that nobody had before this",
        api_key_pepper_previous=PEPPER,
        port=before.factory.context.config.port,
    )
    async with running(changed) as after:
        moved = replace(tenant, base_url=after.base_url, http=after.http)
        for again in (await moved.post(PATH, BODY, headers=headers), await moved.post(UPLOAD, **upload)):
            assert (again.status_code, again.headers.get("idempotency-replayed")) == (201, "true")
        other = await moved.post(PATH, {**BODY, "amountMinor": 101}, headers=headers)
        assert code(other) == "idempotency_key_reused"


async def test_a_request_without_a_stored_answer_is_replayed_as_accepted(service: Service, acme: Tenant) -> None:
    """What a crash between two transactions leaves: the row that was created first, and a key without an answer."""
    headers = key()
    await acme.post(PATH, BODY, headers=headers)
    of_first = "(SELECT key FROM idempotency ORDER BY created_at DESC LIMIT 1)"
    await rows(service, acme, f"UPDATE idempotency SET status = NULL, body = NULL WHERE key = {of_first}")  # noqa: S608 - our own text
    again = await acme.post(PATH, BODY, headers=headers)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")


async def test_an_anonymous_key_is_the_addresss(service: Service) -> None:
    headers = key()
    made = [
        await service.http.post(f"{service.base_url}/tenants", json={"name": "Nobody Else"}, headers=headers)
        for _ in range(2)
    ]
    assert made[0].json() == made[1].json()
    await in_control(service, "DELETE FROM idempotency")


async def test_a_key_is_forgotten_after_a_day(service: Service) -> None:
    tenant = await service.tenant("idempotency-of-yesterday")
    headers = key()
    first = await tenant.post(PATH, BODY, headers=headers)
    await rows(service, tenant, aged("idempotency", "25 hours"))
    other = await tenant.post(PATH, {**BODY, "amountMinor": 7}, headers=headers)
    assert (other.status_code, "idempotency-replayed" in other.headers) == (201, False)
    assert other.json()["id"] != first.json()["id"]
    await tenant.post(PATH, BODY, headers=key())
    await rows(service, tenant, aged("idempotency", "25 hours"))
    await tenant.post(PATH, BODY, headers=key())
    assert await count(service, tenant, "idempotency") == 1
