"""Users who were stored without the provider's subject: the first token links them, and nothing else ever does."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from joserfc.jwk import OctKey

from payrec.domain.principal import ENVIRONMENTS
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import UsernameTakenError
from payrec.services.users import NewUser
from support.idp import sign
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.wire import COMMAND_LINE, ask, code, in_control, signed

pytestmark = pytest.mark.anyio

LIST = "/expected-transactions"
JWT_SECRET = "signs-the-tokens-of-the-service!"


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service that also takes tokens of the shared secret."""
    with cloned(postgres) as database:
        config = make_config(database, auth_mode="both", jwt_secret=JWT_SECRET)
        async with running(config, worker=False) as started:
            yield started


async def unlinked(service: Service, tenant: Tenant, **given: Any) -> tuple[str, UUID]:
    """Add a user without subject; return its name and id."""
    name = f"user-{uuid4()}"
    user = NewUser(username=name, roles=["viewer"], environments=list(ENVIRONMENTS), **given)
    return name, await service.factory.create_user_service().add(COMMAND_LINE, UUID(tenant.id), user)


async def send(service: Service, tenant: Tenant, **claims: Any) -> httpx2.Response:
    """Ask with a token of exactly these claims about the user."""
    named = {"user_id": None, "sub": None, **claims}
    return await sent(tenant, await signed(service, tenant.id, "unused", **named))


async def sent(tenant: Tenant, token: str) -> httpx2.Response:
    place = {"X-Tenant-Id": tenant.id, "X-Environment": "production", "Authorization": f"Bearer {token}"}
    return await ask(tenant, "GET", LIST, place)


def symmetric(service: Service, tenant: Tenant, **claims: Any) -> str:
    """Return a token that is signed with the shared secret."""
    config = service.factory.context.config
    now = int(time.time())
    document = {
        "iss": config.jwt_issuer, "aud": config.jwt_audience, "exp": now + 300, "iat": now,
        "tenant_id": tenant.id, "environment": list(ENVIRONMENTS), **claims,
    }  # fmt: skip
    return sign(OctKey.import_key(JWT_SECRET.encode()), document, alg="HS256", kid=None)


async def subject(service: Service, user_id: UUID) -> str | None:
    async with service.factory.context.database.control(readonly=True) as connection:
        row = await (await connection.execute("SELECT subject FROM app_user WHERE id = %s", (user_id,))).fetchone()
    assert row is not None
    return row["subject"]  # type: ignore[no-any-return]


async def links(service: Service, user_id: UUID) -> list[dict[str, Any]]:
    """Return what the audit log says of the user's links."""
    async with service.factory.context.database.control(readonly=True) as connection:
        cursor = await connection.execute(
            "SELECT actor, after, request_id FROM audit_record WHERE action = 'user.linked' AND resource_id = %s",
            (user_id,),
        )
        return await cursor.fetchall()


async def test_the_first_token_links_and_another_person_of_that_name_is_nobody(service: Service, acme: Tenant) -> None:
    name, user_id = await unlinked(service, acme)
    first, other = f"sub-{uuid4()}", f"sub-{uuid4()}"
    answer = await send(service, acme, sub=first, preferred_username=name)
    assert answer.status_code == 200
    assert await subject(service, user_id) == first
    assert await links(service, user_id) == [
        {"actor": "first-login", "after": {"subject": first}, "request_id": answer.headers["x-request-id"]}
    ]
    assert code(await send(service, acme, sub=other, preferred_username=name)) == "unknown_user"
    # The subject is who it is from now on, whatever the provider calls it.
    assert (await send(service, acme, sub=first, preferred_username="renamed")).status_code == 200
    assert (await send(service, acme, sub=first)).status_code == 200
    assert await subject(service, user_id) == first
    assert len(await links(service, user_id)) == 1


async def test_a_user_id_links_as_a_name_does(service: Service, acme: Tenant) -> None:
    _, user_id = await unlinked(service, acme)
    assert (await send(service, acme, user_id=str(user_id))).status_code == 200
    assert await subject(service, user_id) is None
    first = f"sub-{uuid4()}"
    assert (await send(service, acme, user_id=str(user_id), sub=first)).status_code == 200
    assert await subject(service, user_id) == first
    assert (await send(service, acme, user_id=str(user_id))).status_code == 200
    assert code(await send(service, acme, user_id=str(user_id), sub=f"sub-{uuid4()}")) == "unknown_user"


async def test_of_two_first_tokens_at_once_one_wins(service: Service, acme: Tenant) -> None:
    for _ in range(5):
        name, user_id = await unlinked(service, acme)
        subjects = [f"sub-{uuid4()}" for _ in range(2)]
        answers = await asyncio.gather(*(send(service, acme, sub=s, preferred_username=name) for s in subjects))
        assert sorted(a.status_code for a in answers) == [200, 401]
        winner = next(s for s, a in zip(subjects, answers, strict=True) if a.status_code == 200)
        assert await subject(service, user_id) == winner
        assert len(await links(service, user_id)) == 1


async def test_twenty_requests_with_the_first_token_are_all_let_in(service: Service, acme: Tenant) -> None:
    name, user_id = await unlinked(service, acme)
    token = await signed(service, acme.id, "unused", user_id=None, sub=f"sub-{uuid4()}", preferred_username=name)
    answers = await asyncio.gather(*(sent(acme, token) for _ in range(20)))
    assert Counter(a.status_code for a in answers) == {200: 20}
    assert len(await links(service, user_id)) == 1


async def test_a_name_alone_is_nobody(service: Service, acme: Tenant) -> None:
    name, user_id = await unlinked(service, acme)
    assert code(await send(service, acme, preferred_username=name)) == "unknown_user"
    assert await subject(service, user_id) is None
    first = f"sub-{uuid4()}"
    assert (await send(service, acme, sub=first, preferred_username=name)).status_code == 200
    assert code(await send(service, acme, preferred_username=name)) == "unknown_user"


async def test_a_subject_belongs_to_one_user(service: Service, acme: Tenant) -> None:
    taken = f"sub-{uuid4()}"
    _, owner_id = await unlinked(service, acme, subject=taken)
    name, user_id = await unlinked(service, acme)
    # Named by id, the token would be of both: it is of neither.
    assert code(await send(service, acme, user_id=str(user_id), sub=taken)) == "unknown_user"
    assert await subject(service, user_id) is None
    assert await links(service, user_id) == []
    # Named by its subject, it is the owner's, whatever name it has.
    assert (await send(service, acme, sub=taken, preferred_username=name)).status_code == 200
    assert await subject(service, user_id) is None
    assert await subject(service, owner_id) == taken
    with pytest.raises(UsernameTakenError) as refused:
        await unlinked(service, acme, subject=taken)
    assert (refused.value.status, refused.value.detail) == (409, "another user has this subject")


async def test_two_users_are_not_linked_to_one_subject_at_once(service: Service, acme: Tenant) -> None:
    users = [await unlinked(service, acme) for _ in range(2)]
    wanted = f"sub-{uuid4()}"
    await asyncio.gather(*(send(service, acme, user_id=str(user_id), sub=wanted) for _, user_id in users))
    assert sorted([await subject(service, user_id) for _, user_id in users], key=str) == sorted([wanted, None], key=str)


async def test_a_disabled_user_is_not_linked(service: Service, acme: Tenant) -> None:
    name, user_id = await unlinked(service, acme)
    await service.factory.create_user_service().change(COMMAND_LINE, name, status="disabled")
    assert code(await send(service, acme, sub=f"sub-{uuid4()}", preferred_username=name)) == "unknown_user"
    assert code(await send(service, acme, user_id=str(user_id), sub=f"sub-{uuid4()}")) == "user_disabled"
    assert await subject(service, user_id) is None


async def test_a_user_who_is_disabled_meanwhile_is_not_linked(service: Service, acme: Tenant) -> None:
    """The row was read as active; whoever disables it is faster than the link."""
    _, user_id = await unlinked(service, acme)
    await in_control(service, "UPDATE app_user SET status = 'disabled' WHERE id = %s", user_id)
    linked = await service.factory.create_user_service().link(user_id, f"sub-{uuid4()}", request_id="test")
    assert linked is None
    assert await subject(service, user_id) is None


async def test_a_token_of_another_tenant_links_nobody(service: Service, acme: Tenant, globex: Tenant) -> None:
    name, user_id = await unlinked(service, acme)
    for tenant_id in (globex.id, str(uuid4())):
        for claims in ({"preferred_username": name}, {"user_id": str(user_id)}):
            token = await signed(service, tenant_id, "unused", **{"user_id": None, "sub": f"sub-{uuid4()}", **claims})
            for tenant in (acme, globex):
                assert code(await sent(tenant, token)) == "unknown_user"
    assert await subject(service, user_id) is None
    assert await links(service, user_id) == []


async def test_a_token_of_the_shared_secret_never_links(service: Service, acme: Tenant) -> None:
    name, user_id = await unlinked(service, acme)
    claims = {"sub": f"sub-{uuid4()}", "preferred_username": name}
    assert code(await sent(acme, symmetric(service, acme, **claims))) == "unknown_user"
    assert (await sent(acme, symmetric(service, acme, **claims, user_id=str(user_id)))).status_code == 200
    assert await subject(service, user_id) is None
    assert await links(service, user_id) == []
    # Once the provider has linked the user, both kinds of token must name the same subject.
    first = f"sub-{uuid4()}"
    assert (await send(service, acme, sub=first, preferred_username=name)).status_code == 200
    assert (await sent(acme, symmetric(service, acme, sub=first))).status_code == 200
    assert code(await sent(acme, symmetric(service, acme, **claims, user_id=str(user_id)))) == "unknown_user"


async def test_what_is_taken_away_is_gone_with_the_next_request(service: Service, acme: Tenant, globex: Tenant) -> None:
    users = service.factory.create_user_service()
    (name, _), (other, _) = await unlinked(service, acme), await unlinked(service, globex)
    token = await signed(service, acme.id, "unused", user_id=None, sub=f"sub-{uuid4()}", preferred_username=name)
    theirs = await signed(service, globex.id, "unused", user_id=None, sub=f"sub-{uuid4()}", preferred_username=other)
    assert (await sent(acme, token)).status_code == 200
    for change, expected, undo in (
        ({"status": "disabled"}, "user_disabled", {"status": "active"}),
        ({"roles": ["platform-admin"]}, "insufficient_permission", {"roles": ["viewer"]}),
        ({"environments": ["test"]}, "environment_mismatch", {"environments": ["production"]}),
    ):
        await users.change(COMMAND_LINE, name, **change)
        assert code(await sent(acme, token)) == expected
        assert (await sent(globex, theirs)).status_code == 200
        await users.change(COMMAND_LINE, name, **undo)
        assert (await sent(acme, token)).status_code == 200
