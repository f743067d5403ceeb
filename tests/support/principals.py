"""Every kind of principal that can come to the gate, and what it may do there, written down by hand.

Nothing here is taken from the code under test: the permissions of roles and of the flags of API keys are those of the
interface's own description.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from payrec.domain.keys import generate
from support.idp import assembled
from support.providers import claims_of, person
from support.wire import in_control
from support.world import World, bearer

OPERATES = {"read", "write"}
APPROVES = OPERATES | {"matches:accept", "periods:manage"}
ADMINISTERS = APPROVES | {"settings:manage", "webhooks:manage", "api-keys:manage", "privacy:erase"}
OF_ROLE: dict[str, set[str]] = {
    "viewer": {"read"},
    "operator": OPERATES,
    "approver": APPROVES,
    "admin": ADMINISTERS,
    "platform-admin": {"tenants:manage"},
}
OF_FLAG = {"read": {"read"}, "write": ADMINISTERS - {"read", "api-keys:manage"}}


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who asks: the headers, and what the gate makes of them."""

    headers: Sequence[tuple[str, str]]
    kind: Literal["nobody", "user", "key"] = "nobody"
    may: frozenset[str] = frozenset()
    refused: tuple[int, str] | None = None
    """What every route answers that is not public, whatever it asks for."""


Made = Callable[[World], Awaitable[Asker]]
Change = Callable[[World], Sequence[tuple[str, str]]]
PRINCIPALS: dict[str, Made] = {}
"""By name, who can come; each is made when it is asked for."""


def _principal(name: str) -> Callable[[Made], Made]:
    def named(made: Made) -> Made:
        assert name not in PRINCIPALS, name
        PRINCIPALS[name] = made
        return made

    return named


def _listed(*parts: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for part in parts for pair in part.items())


def permissions_of(roles: Sequence[str]) -> frozenset[str]:
    """Return what roles allow together."""
    return frozenset(permission for role in roles for permission in OF_ROLE[role])


def _user(*roles: str) -> Made:
    async def made(world: World) -> Asker:
        somebody = await world.person(*roles)
        # Where the provider can be asked, the token is its own.
        asked = world.service is world.provider.service
        token = await (world.provider.token(somebody) if asked else world.token(somebody))
        return Asker(headers=_listed(world.place(), bearer(token)), kind="user", may=permissions_of(roles))

    return made


def _key(*flags: str, as_bearer: bool) -> Made:
    async def made(world: World) -> Asker:
        text = (await world.key(*flags))["apiKey"]
        credential = bearer(text) if as_bearer else {"X-Api-Key": text}
        allowed = frozenset(permission for flag in flags for permission in OF_FLAG[flag])
        return Asker(headers=_listed(world.place(), credential), kind="key", may=allowed)

    return made


ROLES: tuple[tuple[str, ...], ...] = (*((role,) for role in OF_ROLE), (), ("viewer", "platform-admin"))
"""Roles of a user: each alone, none at all, two."""

FLAGS: tuple[tuple[str, ...], ...] = (("read",), ("write",), ("read", "write"))
"""Flags of a key."""

for _roles in ROLES:
    PRINCIPALS[f"user {'+'.join(_roles) or 'without roles'}"] = _user(*_roles)
for _flags in FLAGS:
    for _as_bearer in (False, True):
        _header = "Authorization" if _as_bearer else "X-Api-Key"
        PRINCIPALS[f"key {'+'.join(_flags)} in {_header}"] = _key(*_flags, as_bearer=_as_bearer)


def _displaced(original: Made, change: Change, status: int, code: str) -> Made:
    async def made(world: World) -> Asker:
        asker = await original(world)
        credential = [pair for pair in asker.headers if pair[0] not in {"X-Tenant-Id", "X-Environment"}]
        return replace(asker, headers=(*credential, *change(world)), refused=(status, code))

    return made


def _headers(tenant: str | None, environment: str | None) -> Change:
    """Return headers that name a place; a tenant of the world by its slug, and anything else as it is."""

    def change(world: World) -> Sequence[tuple[str, str]]:
        named = {"X-Tenant-Id": world.tenants.get(tenant, tenant) if tenant is not None else None}
        named["X-Environment"] = environment
        return [(name, value) for name, value in named.items() if value is not None]

    return change


def _twice(name: str) -> Change:
    return lambda world: (*world.place().items(), (name, world.place()[name]))


DISPLACED: dict[str, tuple[Change, int, str]] = {
    "tenant of another": (_headers("globex", "production"), 403, "tenant_mismatch"),
    "tenant of nobody": (_headers(str(uuid4()), "production"), 403, "tenant_mismatch"),
    "tenant missing": (_headers(None, "production"), 400, "missing_tenant_header"),
    "tenant empty": (_headers("", "production"), 400, "invalid_tenant_header"),
    "tenant malformed": (_headers("nobody", "production"), 400, "invalid_tenant_header"),
    "tenant twice": (_twice("X-Tenant-Id"), 400, "invalid_tenant_header"),
    "environment missing": (_headers("acme", None), 400, "missing_environment_header"),
    "environment malformed": (_headers("acme", "Production"), 400, "invalid_environment_header"),
    "environment twice": (_twice("X-Environment"), 400, "invalid_environment_header"),
}
"""Headers that lead nowhere, and what that is called."""

for _name in ("user viewer+platform-admin", "key read+write in X-Api-Key"):
    for _where, (_change, _status, _code) in DISPLACED.items():
        PRINCIPALS[f"{_name}, {_where}"] = _displaced(PRINCIPALS[_name], _change, _status, _code)
for _environment in ("development", "staging", "test"):
    PRINCIPALS[f"key of another environment than {_environment}"] = _displaced(
        PRINCIPALS["key read+write in X-Api-Key"], _headers("acme", _environment), 403, "environment_mismatch"
    )


def _turned_away(status: int, code: str) -> Callable[[Callable[[World], Awaitable[dict[str, str]]]], Made]:
    """Make a principal of what returns its headers."""

    def named(headers: Callable[[World], Awaitable[dict[str, str]]]) -> Made:
        async def made(world: World) -> Asker:
            return Asker(headers=_listed(await headers(world)), refused=(status, code))

        return _principal(headers.__name__.strip("_").replace("_", " "))(made)

    return named


@_turned_away(401, "missing_credentials")
async def _nobody(_: World) -> dict[str, str]:
    return {}


@_turned_away(401, "missing_credentials")
async def _nobody_at_a_place(world: World) -> dict[str, str]:
    return world.place()


@_turned_away(401, "invalid_credentials")
async def _another_scheme(world: World) -> dict[str, str]:
    return world.place() | {"Authorization": "Basic YWRtaW46YWRtaW4="}


@_turned_away(401, "invalid_credentials")
async def _an_unknown_key(world: World) -> dict[str, str]:
    return world.place() | {"X-Api-Key": generate(lambda count: bytes(range(count))).text}


@_turned_away(401, "invalid_credentials")
async def _a_mistyped_key(world: World) -> dict[str, str]:
    text = (await world.key("read", "write"))["apiKey"]
    return world.place() | {"X-Api-Key": text[:-1] + ("a" if text[-1] != "a" else "b")}


@_turned_away(401, "invalid_credentials")
async def _a_wrong_key_beside_a_good_token(world: World) -> dict[str, str]:
    token = await world.token(await world.person("admin"))
    return world.place() | bearer(token) | {"X-Api-Key": "nonsense"}


@_turned_away(401, "revoked_credentials")
async def _a_revoked_key(world: World) -> dict[str, str]:
    key = await world.new_key("read", "write")
    await in_control(world.service, "UPDATE api_key SET revoked_at = now() WHERE id = %s", key["id"])
    return world.place() | {"X-Api-Key": key["apiKey"]}


@_turned_away(401, "expired_credentials")
async def _an_expired_key(world: World) -> dict[str, str]:
    key = await world.new_key("read", "write")
    await in_control(world.service, "UPDATE api_key SET expires_at = now() WHERE id = %s", key["id"])
    return world.place() | {"X-Api-Key": key["apiKey"]}


@_turned_away(403, "tenant_suspended")
async def _a_key_of_a_suspended_tenant(world: World) -> dict[str, str]:
    key = await world.key("read", "write", tenant="suspended")
    return world.place("suspended") | {"X-Api-Key": key["apiKey"]}


@_turned_away(403, "tenant_suspended")
async def _a_key_of_a_tenant_that_is_deleted(world: World) -> dict[str, str]:
    key = await world.key("read", "write", tenant="deleting")
    return world.place("deleting") | {"X-Api-Key": key["apiKey"]}


@_turned_away(403, "environment_suspended")
async def _a_key_of_a_suspended_environment(world: World) -> dict[str, str]:
    key = await world.key("read", "write", tenant="half", environment="staging")
    return world.place("half", "staging") | {"X-Api-Key": key["apiKey"]}


@_turned_away(503, "tenant_provisioning")
async def _a_key_of_an_environment_in_the_making(world: World) -> dict[str, str]:
    key = await world.key("read", "write", tenant="half", environment="test")
    return world.place("half", "test") | {"X-Api-Key": key["apiKey"]}


@_turned_away(401, "expired_credentials")
async def _an_expired_token(world: World) -> dict[str, str]:
    token = await world.token(await world.person("admin"), exp=int(time.time()))
    return world.place() | bearer(token)


@_turned_away(401, "invalid_credentials")
async def _an_unsigned_token(world: World) -> dict[str, str]:
    claims = claims_of(world.service, await world.person("admin"))
    return world.place() | bearer(assembled({"alg": "none"}, claims))


@_turned_away(401, "unknown_user")
async def _a_user_that_payrec_does_not_know(world: World) -> dict[str, str]:
    nobody = person(world.tenants["acme"], "admin", subject=str(uuid4()))
    return world.place() | bearer(await world.token(nobody))


@_turned_away(401, "unknown_user")
async def _a_user_of_another_tenant_by_the_token(world: World) -> dict[str, str]:
    token = await world.token(await world.person("admin"), tenant_id=world.tenants["globex"])
    return world.place("globex") | bearer(token)


@_turned_away(401, "unknown_user")
async def _a_user_that_moved_to_another_tenant(world: World) -> dict[str, str]:
    moved = await world.stranger("admin")
    token = await world.token(moved)
    await in_control(
        world.service, "UPDATE app_user SET tenant_id = %s WHERE id = %s", world.tenants["globex"], moved.user_id
    )
    return world.place() | bearer(token)


@_turned_away(403, "user_disabled")
async def _a_disabled_user(world: World) -> dict[str, str]:
    disabled = await world.stranger("admin")
    await in_control(world.service, "UPDATE app_user SET status = 'disabled' WHERE id = %s", disabled.user_id)
    return world.place() | bearer(await world.token(disabled))


@_turned_away(403, "tenant_suspended")
async def _a_user_of_a_suspended_tenant(world: World) -> dict[str, str]:
    return world.place("suspended") | bearer(await world.token(await world.person("admin", tenant="suspended")))


@_turned_away(403, "environment_mismatch")
async def _an_environment_that_is_not_in_the_token(world: World) -> dict[str, str]:
    token = await world.token(await world.person("admin"), environment=["test", "staging"])
    return world.place() | bearer(token)


@_turned_away(403, "environment_mismatch")
async def _an_environment_that_is_not_the_users(world: World) -> dict[str, str]:
    tester = await world.person("admin", environments=("test",))
    token = await world.token(tester, environment=["test", "production"])
    return world.place() | bearer(token)


@_turned_away(403, "environment_mismatch")
async def _an_environment_that_the_tenant_does_not_have(world: World) -> dict[str, str]:
    return world.place("testing") | bearer(await world.token(await world.person("admin", tenant="testing")))


@_principal("a viewer with forged roles")
async def _forged(world: World) -> Asker:
    token = await world.token(
        await world.person("viewer"), roles=["admin", "platform-admin"], permissions=sorted(ADMINISTERS)
    )
    return Asker(headers=_listed(world.place(), bearer(token)), kind="user", may=frozenset({"read"}))


@_principal("an administrator whose token says less")
async def _narrowed(world: World) -> Asker:
    token = await world.token(await world.person("admin"), roles=["viewer"], permissions=["webhooks:manage"])
    allowed = frozenset({"read", "webhooks:manage"})
    return Asker(headers=_listed(world.place(), bearer(token)), kind="user", may=allowed)


@_principal("a reading key beside the token of an administrator")
async def _key_first(world: World) -> Asker:
    token, key = await world.token(await world.person("admin")), await world.key("read")
    headers = _listed(world.place(), bearer(token), {"X-Api-Key": key["apiKey"]})
    return Asker(headers=headers, kind="key", may=frozenset({"read"}))
