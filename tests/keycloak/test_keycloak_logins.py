"""People who log in at Keycloak: names beyond ASCII, first logins, lockouts, and a Keycloak that is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from payrec.storage.users import UserStore
from support.keycloak import realm_of_environment
from support.providers import PASSWORD, KeycloakProvider, Person, add_to_payrec, person
from support.wire import code, in_control
from support.world import World, bearer, shared_database, world

__all__ = ["shared_database", "world"]

realm_of_environment()

pytestmark = pytest.mark.anyio

LIST = "/expected-transactions"
FAILURES = 30
"""More failed logins than the realm allows."""


async def outcome(world: World, token: str, method: str = "GET", path: str = LIST) -> str:
    answer = await world.ask(method, path, world.place() | bearer(token), **({"json": {}} if method == "POST" else {}))
    return "ok" if answer.status_code == 200 else code(answer)


async def subject_of(world: World, somebody: Person) -> str | None:
    """Return the subject that payrec has stored."""
    async with world.service.factory.context.database.control(readonly=True) as connection:
        user = await UserStore(connection).find(somebody.username)
    assert user is not None
    return user["subject"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("body", ["json", "data"])
async def test_names_and_passwords_beyond_ascii(world: World, provider: KeycloakProvider, body: str) -> None:
    """As JSON and as a form, each somebody else's; Keycloak keeps names in lower case.

    One user who logs in twice within milliseconds may be refused: Keycloak takes the second for a parallel guess.
    """
    name = f"jürgen-žižek-北京-{uuid4()}"
    named = replace(person(world.tenants["acme"], "viewer"), username=name, password="pässwörd € 密码 +&=%")
    somebody = await provider.add(named)
    given = {"username": somebody.username, "password": somebody.password}
    url = f"{world.service.base_url}/auth/token"
    answer = await world.service.http.post(url, **{body: given})  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    assert await outcome(world, answer.json()["accessToken"]) == "ok"
    wrong = await world.service.http.post(url, json={**given, "password": "passwörd € 密码 +&=%"})
    assert (wrong.status_code, code(wrong)) == (401, "invalid_credentials")


async def test_an_access_token_and_nothing_else_is_returned(world: World, provider: KeycloakProvider) -> None:
    answer = await provider.log_in(await world.person("viewer"))
    assert set(answer.json()) == {"accessToken", "tokenType", "expiresIn", "access_token", "token_type", "expires_in"}
    assert answer.json()["expiresIn"] == 600
    assert answer.headers["cache-control"] == "no-store"


async def test_the_first_login_links_a_user_by_the_subject(world: World, provider: KeycloakProvider) -> None:
    """payrec knows a username alone, Keycloak no user_id; from the first token on, the subject decides."""
    somebody = person(world.tenants["acme"], "viewer")
    subject = await provider.enrol(somebody, user_id=[])
    await add_to_payrec(world.service, somebody)
    assert await subject_of(world, somebody) is None
    token = await provider.token(somebody)
    assert await outcome(world, token) == "ok"
    assert await subject_of(world, somebody) == subject
    assert await outcome(world, await provider.token(somebody)) == "ok"
    await in_control(
        world.service, "UPDATE app_user SET username = %s WHERE username = %s", "renamed", somebody.username
    )
    assert await outcome(world, token) == "ok"


async def test_a_username_that_is_given_away_opens_nothing(world: World, provider: KeycloakProvider) -> None:
    """Somebody else gets the name of a linked user at Keycloak: another subject, hence nobody."""
    linked = await world.stranger("admin")
    impostor = replace(person(world.tenants["acme"], "admin"), username=f"impostor-{uuid4()}")
    await provider.enrol(impostor, user_id=[])
    await in_control(
        world.service,
        "UPDATE app_user SET username = %s WHERE username = %s",
        impostor.username,
        linked.username,
    )
    assert await outcome(world, await provider.token(impostor)) == "unknown_user"


async def test_who_has_no_roles_at_keycloak_may_nothing(world: World, provider: KeycloakProvider) -> None:
    """Whatever roles payrec has stored; and one role at Keycloak allows no more than that one."""
    for role, reads in (((), "insufficient_permission"), (("viewer",), "ok")):
        somebody = person(world.tenants["acme"], *role)
        known = replace(somebody, subject=await provider.enrol(somebody))
        await add_to_payrec(world.service, replace(known, roles=("admin", "platform-admin")))
        token = await provider.token(somebody)
        assert await outcome(world, token) == reads
        assert await outcome(world, token, "POST") == "insufficient_permission"


async def test_who_has_no_tenant_at_keycloak_is_refused(world: World, provider: KeycloakProvider) -> None:
    somebody = person(world.tenants["acme"], "admin")
    known = replace(somebody, subject=await provider.enrol(somebody, tenant_id=[]))
    await add_to_payrec(world.service, known)
    assert await outcome(world, await provider.token(somebody)) == "invalid_credentials"


async def test_no_user_changes_what_the_administrator_set(world: World, provider: KeycloakProvider) -> None:
    """Through Keycloak's own page for users: neither tenant, environments and user id, nor the username."""
    somebody = await world.stranger("viewer")
    await provider.keycloak.let_edit_account(somebody.subject)
    before = await provider.keycloak.user(somebody.subject)
    tokens = await provider.keycloak.grant("admin-cli", "", somebody.username, PASSWORD)
    page, headers = f"{provider.keycloak.realm.issuer}/account", bearer(tokens["access_token"])
    own = {"username": somebody.username}
    changes: dict[str, dict[str, Any]] = {
        "username": {"username": f"other-{uuid4()}"},
        "tenant_id": {"attributes": {"tenant_id": [world.tenants["globex"]]}},
        "environment": {"attributes": {"environment": ["test"]}},
        "user_id": {"attributes": {"user_id": [str(uuid4())]}},
    }
    async with httpx2.AsyncClient(timeout=30.0) as http:
        for name, change in changes.items():
            answer = await http.post(page, json=own | change, headers=headers)
            assert answer.status_code == 400, answer.text
            assert name in {error["field"] for error in answer.json()["errors"]}
    after = await provider.keycloak.user(somebody.subject)
    assert (after["username"], after["attributes"]) == (before["username"], before["attributes"])


async def test_tokens_of_another_kind_or_client_are_refused(world: World, provider: KeycloakProvider) -> None:
    """Real ones: ID and refresh tokens of our client's twin, access tokens of clients that are not ours.

    Each of somebody else: Keycloak takes the second login of one user within milliseconds for a parallel guess.
    """
    somebody, another = await world.stranger("admin"), await world.stranger("admin")
    issuer = world.service.factory.issuer
    twin, secret = f"twin-{uuid4()}", str(uuid4())
    await provider.keycloak.add_client(twin, secret, protocolMappers=await provider.keycloak.mappers())
    of_twin = await provider.keycloak.grant(twin, secret, somebody.username, PASSWORD, issuer=issuer)
    of_admin_cli = await provider.keycloak.grant("admin-cli", "", another.username, PASSWORD, issuer=issuer)
    assert await outcome(world, of_twin["access_token"]) == "ok"
    refused = [of_twin["id_token"], of_twin["refresh_token"], of_admin_cli["access_token"], of_admin_cli["id_token"]]
    assert [await outcome(world, token) for token in refused] == ["invalid_credentials"] * 4


async def test_a_lockout_is_a_refusal_like_any_other(world: World, provider: KeycloakProvider) -> None:
    """Even the right password is refused while Keycloak has locked the user out; who is in stays in."""
    somebody = await world.stranger("viewer")
    token = await provider.token(somebody)
    wrong = replace(somebody, password=PASSWORD + "!")
    for _ in range(FAILURES):
        answer = await provider.log_in(wrong)
        assert (answer.status_code, code(answer)) == (401, "invalid_credentials")
        if await provider.keycloak.is_locked_out(somebody.subject):
            break
    assert await provider.keycloak.is_locked_out(somebody.subject)
    answer = await provider.log_in(somebody)
    assert (answer.status_code, code(answer)) == (401, "invalid_credentials")
    assert await outcome(world, token) == "ok"


async def test_while_keycloak_is_gone_only_logins_fail(world: World, provider: KeycloakProvider) -> None:
    somebody = await world.person("viewer")
    token, key = await provider.token(somebody), (await world.key("read"))["apiKey"]
    assert await outcome(world, token) == "ok"
    await provider.forwarder.close()
    try:
        for _ in range(3):
            assert await outcome(world, token) == "ok"
            assert await outcome(world, key) == "ok"
        assert await outcome(world, await world.token(somebody)) == "ok"
        answer = await provider.log_in(somebody)
        assert (answer.status_code, code(answer)) == (503, "identity_provider_unavailable")
        assert int(answer.headers["retry-after"]) > 0
    finally:
        await provider.forwarder.open()
    assert (await provider.log_in(somebody)).status_code == 200
