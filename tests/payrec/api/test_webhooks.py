"""Webhooks over HTTP: kept by tenant and environment, their secrets shown once, refused where nothing may be sent."""

from __future__ import annotations

from asyncio import as_completed, create_task, to_thread
from itertools import product
from socket import EAI_NONAME, gaierror
from threading import Event, Semaphore
from typing import Any
from uuid import uuid4

import pytest
from standardwebhooks import Webhook

from payrec.constants.events import WEBHOOK_TESTS_AT_ONCE_TENANT, WEBHOOKS_MAX
from payrec.services.webhook_sender import _Resolver
from support.events import has_arrived
from support.receivers import receiving
from support.service import Service, Tenant
from support.wire import add_key, add_user, ask, code, fields, problem, rows

pytestmark = pytest.mark.anyio

PATH = "/webhooks"
NOWHERE = "https://127.0.0.1:65535/hook"


async def hook(tenant: Tenant, environment: str = "production", **given: Any) -> dict[str, Any]:
    """Make an endpoint that nobody listens at, unless told otherwise."""
    made = await tenant.post(PATH, {"url": NOWHERE, "events": ["*"], **given}, environment)
    assert made.status_code == 201, made.text
    return dict(made.json())


async def patch(tenant: Tenant, made: dict[str, Any], **given: Any) -> dict[str, Any]:
    answer = await tenant.request("PATCH", f"{PATH}/{made['id']}", json=given)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def expect(tenant: Tenant, environment: str = "production", **given: Any) -> str:
    body = {"direction": "credit", "currency": "EUR", "amount": "10.00", **given}
    answer = await tenant.post("/expected-transactions", body, environment)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_an_event_is_delivered_signed_to_its_environment_alone(
    service: Service, acme: Tenant, globex: Tenant
) -> None:
    for tenant, environment in product((acme, globex), ("production", "test")):
        await has_arrived(service, tenant, environment)
    async with receiving() as mine, receiving() as others, receiving() as theirs:
        made = await hook(acme, url=mine.url, events=["expected_transaction.created"])
        await hook(acme, "test", url=others.url)
        await hook(globex, url=theirs.url)
        created, foreign = await expect(acme), await expect(globex)
        [came] = await mine.got(1)
        document = Webhook(made["secret"]).verify(came.body, came.headers)
        assert document == {
            "id": came.id,
            "type": "expected_transaction.created",
            "timestamp": document["timestamp"],
            "tenantId": acme.id,
            "environment": "production",
            "data": {"resourceType": "expected_transaction", "resourceId": created},
        }
        assert came.headers["content-type"] == "application/json"
        assert came.headers["user-agent"].startswith("payrec/")
        [elsewhere] = await theirs.got(1)
        assert elsewhere.resource == foreign
        assert others.received == []
        event = (await acme.get(f"/events/{came.id}")).json()
        assert (event["resourceId"], event["type"], event["data"]) == (created, document["type"], document["data"])
        assert event["createdAt"] == document["timestamp"]
        assert (await globex.get(f"/events/{came.id}")).status_code == 404
        assert (await acme.get(f"/events/{came.id}", "test")).status_code == 404
        for tenant in (acme, globex):
            for environment in ("production", "test"):
                for one in (await tenant.get(PATH, environment)).json()["data"]:
                    await tenant.request("DELETE", f"{PATH}/{one['id']}", environment)


async def test_the_secret_is_in_the_answer_alone_and_stored_encrypted(service: Service, acme: Tenant) -> None:
    made = await acme.post(PATH, {"url": NOWHERE, "events": ["*"]}, headers={"Idempotency-Key": "one"})
    again = await acme.post(PATH, {"url": NOWHERE, "events": ["*"]}, headers={"Idempotency-Key": "one"})
    body = made.json()
    secret = body.pop("secret")
    assert secret.startswith("whsec_")
    assert made.headers["cache-control"] == "no-store"
    assert made.headers["location"] == f"{PATH}/{body['id']}"
    assert again.headers["idempotency-replayed"] == "true"
    got = await acme.get(made.headers["location"])
    assert got.json() == again.json() == body
    assert secret not in got.text + again.text + (await acme.get(PATH)).text
    stored = await rows(
        service, acme, "SELECT w::text AS row FROM webhook w UNION ALL SELECT a::text FROM audit_record a"
    )
    assert secret.removeprefix("whsec_") not in str(stored)
    assert (got.headers["etag"], body["version"], body["status"], body["disabledReason"]) == ('"1"', 1, "active", None)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("https://10.0.0.1/", "address_refused"),
        ("https://[::ffff:169.254.169.254]/", "address_refused"),
        ("https://[64:ff9b::a9fe:a9fe]/", "address_refused"),
        ("https://0x7f000001/", "host_malformed"),
        ("https://user:secret-of-mine@example.com/", "credentials_refused"),
        ("gopher://example.com/", "scheme_refused"),
        ("https://example.com:25/", "port_refused"),
        ("http://8.8.8.8/", "address_refused"),
    ],
)
async def test_an_address_that_nothing_is_sent_to_is_422(acme: Tenant, url: str, wrong: str) -> None:
    made = await hook(acme)
    for answer in (
        await acme.post(PATH, {"url": url, "events": ["*"]}),
        await acme.request("PATCH", f"{PATH}/{made['id']}", json={"url": url}),
    ):
        assert (answer.status_code, code(answer), fields(answer)) == (422, "url_not_allowed", {("/url", wrong)})
        assert "secret-of-mine" not in answer.text
    await acme.request("DELETE", f"{PATH}/{made['id']}")


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"events": []}, ("/events", "too_short")),
        ({"events": ["match.*"]}, ("/events/0", "unknown_event")),
        ({"events": ["*", "nonsense"]}, ("/events/1", "unknown_event")),
        ({"events": "*"}, ("/events", "list_type")),
        ({"url": ""}, ("/url", "string_too_short")),
        ({"url": "https://example.com/" + "x" * 2048}, ("/url", "string_too_long")),
        ({"description": ""}, ("/description", "string_too_short")),
        ({"status": "active"}, ("/status", "extra_forbidden")),
        ({"secret": "whsec_x"}, ("/secret", "extra_forbidden")),
    ],
)
async def test_what_cannot_be_is_named(acme: Tenant, given: dict[str, Any], wrong: tuple[str, str]) -> None:
    answer = await acme.post(PATH, {"url": NOWHERE, "events": ["*"], **given})
    assert (answer.status_code, fields(answer)) == (422, {wrong})


async def test_a_patch_changes_what_it_names_and_heeds_if_match(acme: Tenant) -> None:
    made = await hook(acme, description="first")
    path = f"{PATH}/{made['id']}"
    changed = await patch(acme, made, description=None, events=["match.accepted"])
    assert (changed["description"], changed["events"], changed["version"]) == (None, ["match.accepted"], 2)
    refused = await acme.request("PATCH", path, json={"url": NOWHERE}, headers={"If-Match": '"1"'})
    assert code(refused) == "version_mismatch"
    for name in ("url", "events", "status"):
        wrong = await acme.request("PATCH", path, json={name: None})
        assert fields(wrong) == {(f"/{name}", "not_removable")}
    disabled = await patch(acme, made, status="disabled")
    assert (disabled["status"], disabled["disabledReason"]) == ("disabled", "requested")
    again = await acme.post(f"{path}/redeliver", {"since": "2026-01-01T00:00:00Z"})
    assert code(again) == "invalid_state"
    enabled = await patch(acme, made, status="active")
    assert (enabled["status"], enabled["disabledReason"]) == ("active", None)
    outdated = await acme.request("DELETE", path, headers={"If-Match": '"1"'})
    assert (outdated.status_code, code(outdated)) == (412, "version_mismatch")
    assert (await acme.get(path)).json() == enabled
    current = {"If-Match": f'"{enabled["version"]}"'}
    assert (await acme.request("DELETE", path, headers=current)).status_code == 204
    assert (await acme.request("DELETE", path)).status_code == 404


async def test_an_environment_has_so_many_webhooks_and_no_more(service: Service) -> None:
    full = await service.tenant("full", environments=["production", "test"])
    for _ in range(WEBHOOKS_MAX):
        await hook(full, "test")
    refused = await full.post(PATH, {"url": NOWHERE, "events": ["*"]}, "test")
    assert code(refused) == "invalid_state"
    await hook(full, "production")


async def test_they_are_for_those_who_may_and_in_their_own_environment(service: Service, acme: Tenant) -> None:
    made = await hook(acme)
    _, operator = await add_user(service, acme, "approver")
    for method, path in (("POST", PATH), ("PATCH", f"{PATH}/{made['id']}"), ("POST", f"{PATH}/{made['id']}/test")):
        assert code(await operator.request(method, path, json={})) == "insufficient_permission"
    assert (await operator.get(f"{PATH}/{made['id']}/deliveries")).status_code == 200
    for kind in ("rotate-secret", "test"):
        for identifier in (str(uuid4()), "x"):
            assert (await acme.post(f"{PATH}/{identifier}/{kind}")).status_code == 404
        assert (await acme.post(f"{PATH}/{made['id']}/{kind}", None, "test")).status_code == 404
    assert (await acme.get(f"{PATH}/{made['id']}/deliveries", "test")).status_code == 404
    key = await add_key(acme, "test")
    headers = {"X-Tenant-Id": acme.id, "X-Environment": "test", "X-Api-Key": key["apiKey"]}
    assert (await ask(acme, "GET", f"{PATH}/{made['id']}", headers)).status_code == 404
    assert (await ask(acme, "POST", PATH, headers, json={"url": NOWHERE, "events": ["*"]})).status_code == 201
    await acme.request("DELETE", f"{PATH}/{made['id']}")


async def test_a_test_message_tells_at_once_what_came_of_it(acme: Tenant) -> None:
    async with receiving() as receiver:
        made = await hook(acme, url=receiver.url, events=["audit.sealed"])
        answer = await acme.post(f"{PATH}/{made['id']}/test", headers={"Idempotency-Key": "ping"})
        assert answer.status_code == 200, answer.text
        assert (answer.json()["succeeded"], answer.json()["responseStatus"]) == (True, 204)
        again = await acme.post(f"{PATH}/{made['id']}/test", headers={"Idempotency-Key": "ping"})
        assert again.headers["idempotency-replayed"] == "true"
        [came] = receiver.received
        document = Webhook(made["secret"]).verify(came.body, came.headers)
        assert document["type"] == "webhook.test"
        assert document["data"] == {"resourceType": "webhook", "resourceId": made["id"]}
        assert (await acme.get(f"{PATH}/{made['id']}/deliveries")).json()["data"] == []
        await acme.request("DELETE", f"{PATH}/{made['id']}")
    nobody = await hook(acme, url=receiver.url, events=["audit.sealed"])
    failed = (await acme.post(f"{PATH}/{nobody['id']}/test")).json()
    assert (failed["succeeded"], failed["responseStatus"], failed["error"]) == (False, None, "connection_refused")
    await acme.request("DELETE", f"{PATH}/{nobody['id']}")


async def test_tests_of_one_tenant_that_hang_are_few_and_keep_no_other_waiting(
    acme: Tenant, globex: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = Semaphore(0), Event()

    def look_up(host: str, _port: int, _family: int) -> list[Any]:
        if host == "slow.example":
            asked.release()
            answered.wait(30)
        raise gaierror(EAI_NONAME, "unknown")

    monkeypatch.setattr(_Resolver, "_look_up", staticmethod(look_up))
    slow = await hook(acme, url="https://slow.example/", events=["audit.sealed"])
    other = await hook(globex, url="https://nobody.example/", events=["audit.sealed"])
    answers = []
    try:
        tests = [create_task(acme.post(f"{PATH}/{slow['id']}/test")) for _ in range(WEBHOOK_TESTS_AT_ONCE_TENANT + 8)]
        for _ in range(WEBHOOK_TESTS_AT_ONCE_TENANT):
            assert await to_thread(asked.acquire, timeout=10)
        theirs = await globex.post(f"{PATH}/{other['id']}/test")
        assert theirs.json()["error"] == "name_not_found"
        for coming in as_completed(tests):
            answers.append(await coming)
            if len(answers) == 8:
                answered.set()
    finally:
        answered.set()
    assert not asked.acquire(blocking=False), "more names were looked up than may be at once"
    assert {(code(answer), answer.headers["retry-after"]) for answer in answers[:8]} == {("rate_limited", "1")}
    assert {answer.json()["error"] for answer in answers[8:]} == {"name_not_found"}
    assert (await acme.post(f"{PATH}/{slow['id']}/test")).status_code == 200
    await acme.request("DELETE", f"{PATH}/{slow['id']}")
    await globex.request("DELETE", f"{PATH}/{other['id']}")


async def test_both_secrets_sign_after_a_rotation(service: Service, acme: Tenant) -> None:
    async with receiving() as receiver:
        made = await hook(acme, url=receiver.url, events=["audit.sealed"])
        rotated = await acme.post(f"{PATH}/{made['id']}/rotate-secret")
        assert (rotated.status_code, rotated.headers["cache-control"]) == (200, "no-store")
        new = rotated.json()["secret"]
        assert new != made["secret"]
        assert rotated.json()["previousSecretUntil"] is not None
        await acme.post(f"{PATH}/{made['id']}/test")
        await rows(service, acme, "UPDATE webhook SET previous_secret_until = now()")
        await acme.post(f"{PATH}/{made['id']}/test")
        first, second = receiver.received
        for secret in (made["secret"], new):
            Webhook(secret).verify(first.body, first.headers)
        assert len(second.headers["webhook-signature"].split(" ")) == 1
        Webhook(new).verify(second.body, second.headers)
        await acme.request("DELETE", f"{PATH}/{made['id']}")


async def test_a_secret_that_cannot_be_opened_any_more_is_told(service: Service, acme: Tenant) -> None:
    """As after a change of ENCRYPTION_KEY, until there is a new one."""
    async with receiving() as receiver:
        made = await hook(acme, url=receiver.url)
        await rows(service, acme, "UPDATE webhook SET secret_sealed = decode(repeat('01', 61), 'hex')")
        tested = await acme.post(f"{PATH}/{made['id']}/test")
        assert (tested.status_code, problem(tested)["code"]) == (409, "invalid_state")
        assert "rotate-secret" in tested.json()["detail"]
        assert (await acme.post(f"{PATH}/{made['id']}/rotate-secret")).status_code == 200
        assert (await acme.post(f"{PATH}/{made['id']}/test")).json()["succeeded"]
        await acme.request("DELETE", f"{PATH}/{made['id']}")


async def test_a_conflict_of_redeliver_is_in_its_body(acme: Tenant) -> None:
    made = await hook(acme)
    path = f"{PATH}/{made['id']}/redeliver"
    for body in ({}, {"eventIds": [str(uuid4())], "since": "2026-01-01T00:00:00Z"}):
        assert {wrong for _, wrong in fields(await acme.post(path, body))} == {"event_ids_or_since"}
    assert fields(await acme.post(path, {"eventIds": []})) == {("/eventIds", "too_short")}
    unknown = await acme.post(path, {"eventIds": [str(uuid4())]})
    assert (unknown.status_code, unknown.json()) == (202, {"count": 0, "hasMore": False})
    assert problem(await acme.post(path, {"eventIds": ["x"]}))["status"] == 422
    await acme.request("DELETE", f"{PATH}/{made['id']}")
