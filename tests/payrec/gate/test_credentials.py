"""The six rules of the headers, with tokens and with API keys: who is let in, where, and to what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from payrec.domain.principal import ENVIRONMENTS
from payrec.embedded.postgres import EmbeddedPostgres
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.wire import add_key, add_user, ask, code, in_control, signed

pytestmark = pytest.mark.anyio

LIST = "/expected-transactions"
BODY = {"direction": "credit", "amountMinor": 100, "currency": "EUR"}


@pytest.fixture(scope="module")
async def acme(service: Service) -> Tenant:
    """A tenant with all four environments."""
    return await service.tenant("acme")


@pytest.fixture(scope="module")
async def key(acme: Tenant) -> dict[str, Any]:
    return await add_key(acme)


def place(tenant: Tenant, environment: str = "production", **more: str) -> dict[str, str]:
    return {"X-Tenant-Id": tenant.id, "X-Environment": environment, **more}


async def outcome(answer: httpx2.Response) -> str:
    return "ok" if answer.status_code < 300 else code(answer)


async def test_both_schemes_open_the_same_list(acme: Tenant, key: dict[str, Any]) -> None:
    for credential in (
        {"Authorization": f"Bearer {acme.token}"},
        {"Authorization": f"bearer   {key['apiKey']}"},
        {"Authorization": f"Bearer {key['apiKey']}"},
        {"X-Api-Key": key["apiKey"]},
    ):
        assert await outcome(await ask(acme, "GET", LIST, place(acme, **credential))) == "ok"


async def test_an_x_api_key_wins_over_authorization_and_never_falls_back(acme: Tenant, key: dict[str, Any]) -> None:
    read_only = await add_key(acme, write=False)
    both = place(acme, **{"X-Api-Key": read_only["apiKey"], "Authorization": f"Bearer {acme.token}"})
    assert await outcome(await ask(acme, "POST", LIST, both, json=BODY)) == "insufficient_permission"
    for wrong in ("", "nonsense", key["apiKey"][:-1] + ("x" if key["apiKey"][-1] != "x" else "y"), acme.token):
        headers = place(acme, **{"X-Api-Key": wrong, "Authorization": f"Bearer {acme.token}"})
        assert await outcome(await ask(acme, "GET", LIST, headers)) == "invalid_credentials", wrong[:10]
    headers = place(acme, **{"X-Api-Key": key["apiKey"], "Authorization": "Bearer a.b.c"})
    assert await outcome(await ask(acme, "GET", LIST, headers)) == "ok"


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Basic YTpi", "Bearer a", "Bearer a.b", "Bearer a.b.c", "Bearer a.b.c.d", "Bearer ..", "x"],
)
async def test_a_bearer_value_that_is_neither_token_nor_key_is_invalid(acme: Tenant, value: str) -> None:
    answer = await ask(acme, "GET", LIST, place(acme, Authorization=value))
    assert await outcome(answer) == "invalid_credentials"


async def test_three_segments_are_a_token_and_anything_else_is_a_key(acme: Tenant, key: dict[str, Any]) -> None:
    """A key with one more dot has three segments: it is judged as a token, though a key begins it."""
    for value in (f"{key['apiKey']}.x", f"{key['apiKey']}.x.y", acme.token.rpartition(".")[0], f"{acme.token}.x"):
        answer = await ask(acme, "GET", LIST, place(acme, Authorization=f"Bearer {value}"))
        assert await outcome(answer) == "invalid_credentials"


async def test_credentials_that_come_twice_are_refused(acme: Tenant, key: dict[str, Any]) -> None:
    for name, value in (("Authorization", f"Bearer {acme.token}"), ("X-Api-Key", key["apiKey"])):
        headers = [*place(acme).items(), (name, value), (name, value)]
        answer = await acme.http.get(acme.base_url + LIST, headers=headers)
        assert await outcome(answer) == "invalid_credentials"
    for name, expected in (("X-Tenant-Id", "invalid_tenant_header"), ("X-Environment", "invalid_environment_header")):
        headers = [*acme.headers().items(), (name, acme.headers()[name])]
        answer = await acme.http.get(acme.base_url + LIST, headers=headers)
        assert await outcome(answer) == expected


async def test_both_headers_must_be_the_keys_own(acme: Tenant, globex: Tenant, key: dict[str, Any]) -> None:
    mine = {"X-Api-Key": key["apiKey"]}
    assert await outcome(await ask(acme, "GET", LIST, place(globex, **mine))) == "tenant_mismatch"
    for environment in sorted(set(ENVIRONMENTS) - {"production"}):
        assert await outcome(await ask(acme, "GET", LIST, place(acme, environment, **mine))) == "environment_mismatch"
    assert await outcome(await ask(acme, "GET", LIST, mine)) == "missing_tenant_header"
    without = {"X-Tenant-Id": acme.id, **mine}
    assert await outcome(await ask(acme, "GET", LIST, without)) == "missing_environment_header"


async def test_a_token_needs_the_same_two_headers(service: Service, acme: Tenant, globex: Tenant) -> None:
    mine = {"Authorization": f"Bearer {acme.token}"}
    assert await outcome(await ask(acme, "GET", LIST, mine)) == "missing_tenant_header"
    assert await outcome(await ask(acme, "GET", LIST, place(globex, **mine))) == "tenant_mismatch"
    assert (
        await outcome(await ask(acme, "GET", LIST, place(acme, "PRODUCTION", **mine))) == "invalid_environment_header"
    )
    _, user = await add_user(service, acme, "viewer", environments=("production",))
    assert await outcome(await user.get(LIST)) == "ok"
    assert await outcome(await user.get(LIST, "test")) == "environment_mismatch"


async def test_the_tokens_environment_is_a_string_or_a_list(service: Service, acme: Tenant) -> None:
    name, _ = await add_user(service, acme, "viewer")
    user_id = name.removeprefix("user-")
    for claim, opened in (("test", {"test"}), (["test", "staging"], {"test", "staging"}), ([], set()), (None, set())):
        token = await signed(service, acme.id, user_id, environment=claim)
        for environment in ENVIRONMENTS:
            answer = await ask(acme, "GET", LIST, place(acme, environment, Authorization=f"Bearer {token}"))
            assert await outcome(answer) == ("ok" if environment in opened else "environment_mismatch")


async def test_an_environment_that_the_tenant_does_not_have_is_a_mismatch(service: Service) -> None:
    small = await service.tenant("small", environments=["test"])
    assert await outcome(await small.get(LIST, "test")) == "ok"
    assert await outcome(await small.get(LIST, "production")) == "environment_mismatch"


async def test_the_flags_of_a_key_open_reading_and_writing_apart(acme: Tenant) -> None:
    read_only, write_only = await add_key(acme, write=False), await add_key(acme, read=False)
    for key, reads, writes in (
        (read_only, "ok", "insufficient_permission"),
        (write_only, "insufficient_permission", "ok"),
    ):
        headers = place(acme, **{"X-Api-Key": key["apiKey"]})
        assert await outcome(await ask(acme, "GET", LIST, headers)) == reads
        assert (await ask(acme, "HEAD", LIST, headers)).status_code == (200 if reads == "ok" else 403)
        assert await outcome(await ask(acme, "POST", LIST, headers, json=BODY)) == writes
        settings = await ask(acme, "PATCH", f"/tenants/{acme.id}/settings", headers, json={"locale": "de"})
        assert await outcome(settings) == writes


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/auth/api-keys"),
        ("GET", "/auth/api-keys"),
        ("GET", "/auth/api-keys/0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b3"),
        ("DELETE", "/auth/api-keys/0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b3"),
    ],
)
async def test_no_key_reaches_the_keys(acme: Tenant, key: dict[str, Any], method: str, path: str) -> None:
    for credential in ({"X-Api-Key": key["apiKey"]}, {"Authorization": f"Bearer {key['apiKey']}"}):
        answer = await ask(acme, method, path, place(acme, **credential), json={} if method == "POST" else None)
        assert await outcome(answer) == "jwt_required"


async def test_a_revoked_key_is_refused_from_the_next_request_on(acme: Tenant) -> None:
    key = await add_key(acme)
    headers = place(acme, **{"X-Api-Key": key["apiKey"]})
    assert await outcome(await ask(acme, "GET", LIST, headers)) == "ok"
    assert (await acme.request("DELETE", f"/auth/api-keys/{key['id']}")).status_code == 204
    assert await outcome(await ask(acme, "GET", LIST, headers)) == "revoked_credentials"


async def test_an_expired_key_is_refused_from_the_next_request_on(service: Service, acme: Tenant) -> None:
    key = await add_key(acme, expiresAt="2999-01-01T00:00:00Z")
    headers = place(acme, **{"X-Api-Key": key["apiKey"]})
    assert await outcome(await ask(acme, "GET", LIST, headers)) == "ok"
    await in_control(service, "UPDATE api_key SET expires_at = now() WHERE id = %s", key["id"])
    assert await outcome(await ask(acme, "GET", LIST, headers)) == "expired_credentials"


async def test_a_key_with_another_secret_is_unknown_even_when_revoked(service: Service, acme: Tenant) -> None:
    """Whoever has only the public half learns nothing of the key."""
    key = await add_key(acme)
    await in_control(service, "UPDATE api_key SET revoked_at = now(), digest = %s WHERE id = %s", b"x" * 32, key["id"])
    headers = place(acme, **{"X-Api-Key": key["apiKey"]})
    assert await outcome(await ask(acme, "GET", LIST, headers)) == "invalid_credentials"


async def test_a_disabled_user_is_refused_from_the_next_request_on(service: Service, acme: Tenant) -> None:
    name, user = await add_user(service, acme, "viewer")
    assert await outcome(await user.get(LIST)) == "ok"
    await in_control(service, "UPDATE app_user SET status = 'disabled' WHERE username = %s", name)
    assert await outcome(await user.get(LIST)) == "user_disabled"


@pytest.mark.parametrize("status", ["suspended", "deleting"])
async def test_a_suspended_tenant_is_closed_to_users_and_keys(service: Service, status: str) -> None:
    tenant = await service.tenant(f"closed-{status}", environments=["production"])
    key = await add_key(tenant)
    await in_control(service, "UPDATE tenant SET status = %s WHERE id = %s", status, tenant.id)
    assert await outcome(await tenant.get(LIST)) == "tenant_suspended"
    answer = await ask(tenant, "GET", LIST, place(tenant, **{"X-Api-Key": key["apiKey"]}))
    assert await outcome(answer) == "tenant_suspended"


async def test_a_token_never_allows_more_than_the_stored_user(service: Service, acme: Tenant) -> None:
    name, _ = await add_user(service, acme, "viewer")
    user_id = name.removeprefix("user-")
    claims: list[dict[str, Any]] = [
        {"roles": ["admin"], "permissions": ["write", "tenants:manage"]},
        {"roles": ["platform-admin", "offline_access"]},
    ]
    for claim in claims:
        token = await signed(service, acme.id, user_id, **claim)
        headers = place(acme, Authorization=f"Bearer {token}")
        assert await outcome(await ask(acme, "POST", LIST, headers, json=BODY)) == "insufficient_permission"


async def test_a_token_can_take_permissions_away(service: Service, acme: Tenant) -> None:
    name, _ = await add_user(service, acme, "admin")
    token = await signed(service, acme.id, name.removeprefix("user-"), roles=[], permissions=["read"])
    headers = place(acme, Authorization=f"Bearer {token}")
    assert await outcome(await ask(acme, "GET", LIST, headers)) == "ok"
    assert await outcome(await ask(acme, "POST", LIST, headers, json=BODY)) == "insufficient_permission"


async def test_a_token_whose_subject_is_another_users_is_unknown(service: Service, acme: Tenant) -> None:
    name, _ = await add_user(service, acme, "viewer")
    user_id = name.removeprefix("user-")
    for claims in ({"sub": str(uuid4())}, {"user_id": str(uuid4()), "sub": user_id}, {"tenant_id": str(uuid4())}):
        token = await signed(service, acme.id, user_id, **claims)
        answer = await ask(acme, "GET", LIST, place(acme, Authorization=f"Bearer {token}"))
        assert await outcome(answer) == "unknown_user"


async def test_a_token_without_user_id_is_resolved_by_its_subject(service: Service, acme: Tenant) -> None:
    name, _ = await add_user(service, acme, "viewer")
    token = await signed(service, acme.id, name.removeprefix("user-"), user_id=None)
    assert await outcome(await ask(acme, "GET", LIST, place(acme, Authorization=f"Bearer {token}"))) == "ok"


async def test_every_outcome_is_counted_and_no_public_request(service: Service, acme: Tenant) -> None:
    def counted() -> dict[tuple[str, str], float]:
        family = service.factory.context.metrics.authentications.collect()
        return {
            (sample.labels["principal"], sample.labels["outcome"]): sample.value
            for metric in family
            for sample in metric.samples
            if sample.name.endswith("_total")
        }

    read_only = await add_key(acme, write=False)
    before = counted()
    key = place(acme, **{"X-Api-Key": read_only["apiKey"]})
    for method, headers in (("GET", key), ("POST", key), ("GET", acme.headers()), ("GET", {})):
        await ask(acme, method, LIST, headers)
    await acme.http.get(f"{service.base_url}/api/health", headers=key)
    after = counted()
    assert {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)} == {
        ("api_key", "ok"): 1,
        ("unknown", "insufficient_permission"): 1,
        ("user", "ok"): 1,
        ("unknown", "missing_credentials"): 1,
    }


async def test_public_endpoints_ignore_whatever_is_sent(service: Service) -> None:
    junk = {"Authorization": "Bearer a.b.c", "X-Api-Key": "x", "X-Tenant-Id": "x", "X-Environment": "x"}
    assert (await service.http.get(f"{service.base_url}/api/health", headers=junk)).status_code == 200
    made = await service.http.post(f"{service.base_url}/tenants", headers=junk, json={"name": "Junk Headers"})
    assert made.status_code == 201


@pytest.fixture
async def alone(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """A service whose identity provider does not answer."""
    provider = {"idp_issuer_url": "http://127.0.0.1:9/realm", "idp_client_secret": "of-the-client-32-characters-long"}
    with cloned(postgres) as database:
        async with running(make_config(database, **provider), worker=False) as started:
            yield started


async def test_without_the_providers_keys_a_token_cannot_be_judged(alone: Service, acme: Tenant) -> None:
    answer = await alone.http.get(alone.base_url + LIST, headers={"Authorization": f"Bearer {acme.token}"})
    assert (answer.status_code, code(answer)) == (503, "identity_provider_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    unsigned = await alone.http.get(alone.base_url + LIST, headers={"Authorization": "Bearer a.b.c"})
    assert code(unsigned) == "invalid_credentials"
