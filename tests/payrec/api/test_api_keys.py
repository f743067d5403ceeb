"""API keys over HTTP: shown once, listed without their secret, gone when revoked."""

from __future__ import annotations

import asyncio
import hashlib
import re
import zlib
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest

from payrec.constants import API_KEYS_ACTIVE_MAX
from payrec.domain import keys
from support.service import PEPPER, Service, Tenant
from support.wire import add_key, add_user, code, fields, in_control

pytestmark = pytest.mark.anyio

PATH = "/auth/api-keys"
FORM = re.compile(r"pr_[0-9A-Za-z]{16}\.[0-9A-Za-z]{49}")


async def test_the_answer_to_a_creation_has_the_key_and_nobody_keeps_it(acme: Tenant) -> None:
    made = await acme.post(PATH, {"name": "ledger", "read": True, "expiresAt": "2999-01-01T01:00:00+01:00"}, "test")
    body = made.json()
    assert made.status_code == 201
    assert set(body) >= {
        "id", "publicId", "apiKey", "name", "read", "write", "expiresAt", "createdAt", "tenantId", "environment"
    }  # fmt: skip
    assert (body["name"], body["read"], body["write"], body["expiresAt"]) == (
        "ledger", True, False, "2999-01-01T00:00:00Z"
    )  # fmt: skip
    assert (body["tenantId"], body["environment"]) == (acme.id, "test")
    assert made.headers["cache-control"] == "no-store"
    assert made.headers["location"] == f"{PATH}/{body['id']}"
    assert FORM.fullmatch(body["apiKey"])
    assert body["apiKey"].startswith(f"pr_{body['publicId']}.")


async def test_the_last_six_digits_are_the_checksum(acme: Tenant) -> None:
    text = (await add_key(acme))["apiKey"]
    value = 0
    for digit in text[-6:]:
        value = value * 62 + keys.ALPHABET.index(digit)
    assert value == zlib.crc32(text[:-6].encode())


async def test_lists_and_single_keys_have_no_secret(acme: Tenant) -> None:
    made = await add_key(acme, name="shown once")
    listed = await acme.get(PATH)
    got = await acme.get(f"{PATH}/{made['id']}")
    secret = made.pop("apiKey").partition(".")[2]
    assert got.json() == made
    assert made in listed.json()["data"]
    for answer in (listed, got):
        assert secret not in answer.text
        assert "apiKey" not in answer.text


async def test_only_a_peppered_digest_is_stored(service: Service, acme: Tenant) -> None:
    text = (await add_key(acme))["apiKey"]
    async with service.factory.context.database.control(readonly=True) as connection:
        stored = await (await connection.execute("SELECT * FROM api_key")).fetchall()
        audited = await (await connection.execute("SELECT * FROM audit_record")).fetchall()
    assert text.partition(".")[2] not in str(stored) + str(audited)
    digests = {bytes(row["digest"]) for row in stored}
    assert hashlib.sha256(text.encode()).digest() not in digests
    assert keys.digest(keys.parse(text), PEPPER.encode()) in digests


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, {("/read", "flag_required")}),
        ({"read": False, "write": False}, {("/read", "flag_required")}),
        ({"read": "true"}, {("/read", "bool_type")}),
        ({"read": True, "expiresAt": "2020-01-01T00:00:00Z"}, {("/expiresAt", "not_in_future")}),
        ({"read": True, "expiresAt": "2999-01-01"}, {("/expiresAt", "timestamp_malformed")}),
        ({"read": True, "expiresAt": "2999-01-01T00:00:00"}, {("/expiresAt", "timestamp_malformed")}),
        ({"read": True, "expiresAt": "9999-12-31T23:59:59-23:59"}, {("/expiresAt", "timestamp_malformed")}),
        ({"read": True, "expiresAt": 32503680000}, {("/expiresAt", "timestamp_malformed")}),
        ({"read": True, "name": "x" * 501}, {("/name", "string_too_long")}),
        ({"read": True, "environment": "test"}, {("/environment", "extra_forbidden")}),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, {("/read", "flag_required"), ("/expiresAt", "not_in_future")}),
    ],
)
async def test_what_cannot_be_is_named(acme: Tenant, body: dict[str, Any], wrong: set[tuple[str, str]]) -> None:
    assert fields(await acme.post(PATH, body)) == wrong


async def test_the_last_representable_instant_is_an_expiry(acme: Tenant) -> None:
    made = await acme.post(PATH, {"read": True, "expiresAt": "9999-12-31T23:59:59Z"})
    assert (made.status_code, made.json()["expiresAt"]) == (201, "9999-12-31T23:59:59Z")
    assert (await acme.get(made.headers["location"])).status_code == 200


async def test_a_key_is_listed_in_its_environment_alone(acme: Tenant, globex: Tenant) -> None:
    made = await add_key(acme, "test")
    for tenant, environment in ((acme, "production"), (globex, "test")):
        listed = (await tenant.get(PATH, environment, params={"limit": 200})).json()["data"]
        assert made["id"] not in {key["id"] for key in listed}
        assert code(await tenant.get(f"{PATH}/{made['id']}", environment)) == "not_found"
        assert code(await tenant.request("DELETE", f"{PATH}/{made['id']}", environment)) == "not_found"
    assert (await acme.get(f"{PATH}/{made['id']}", "test")).json()["status"] == "active"


async def test_revoking_is_204_and_again_204_and_unknown_404(acme: Tenant) -> None:
    made = await add_key(acme)
    for _ in range(2):
        answer = await acme.request("DELETE", f"{PATH}/{made['id']}")
        assert (answer.status_code, answer.content) == (204, b"")
    got = (await acme.get(f"{PATH}/{made['id']}")).json()
    assert (got["status"], got["revokedAt"] is not None) == ("revoked", True)
    await acme.request("DELETE", f"{PATH}/{made['id']}")
    assert (await acme.get(f"{PATH}/{made['id']}")).json() == got
    for unknown in (str(uuid4()), "x", made["publicId"]):
        assert code(await acme.request("DELETE", f"{PATH}/{unknown}")) == "not_found"


async def test_an_environment_has_a_hundred_active_keys_even_when_asked_at_once(service: Service) -> None:
    tenant = await service.tenant("many-keys", environments=["test", "production"])
    fill = """
        INSERT INTO api_key (id, public_id, tenant_id, environment, digest, read, write, created_by, created_at)
        SELECT gen_random_uuid(), 'filled' || n, %s, 'test', sha256('x'), true, false, 'test', now()
        FROM generate_series(1, %s) AS n
    """
    await in_control(service, fill, tenant.id, API_KEYS_ACTIVE_MAX - 3)
    answers = await asyncio.gather(*(tenant.post(PATH, {"read": True}, "test") for _ in range(8)))
    assert Counter(a.status_code for a in answers) == {201: 3, 409: 5}
    assert {code(a) for a in answers if a.status_code == 409} == {"invalid_state"}
    await add_key(tenant, "production")
    made = next(a.json()["id"] for a in answers if a.status_code == 201)
    assert (await tenant.request("DELETE", f"{PATH}/{made}", "test")).status_code == 204
    await add_key(tenant, "test")


async def test_only_who_manages_keys_gets_to_them(service: Service, acme: Tenant) -> None:
    for roles in (("viewer",), ("operator",), ("approver",), ("platform-admin",)):
        _, user = await add_user(service, acme, *roles)
        for method, path in (("GET", PATH), ("POST", PATH), ("DELETE", f"{PATH}/{uuid4()}")):
            answer = await user.request(method, path, **({"json": {"read": True}} if method == "POST" else {}))
            assert code(answer) == "insufficient_permission"
