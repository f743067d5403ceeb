"""Names of those who have decided: of the tenant's own users and the environment's own keys."""

from __future__ import annotations

import pytest

from payrec.domain.caller import Caller
from payrec.domain.principal import Principal
from payrec.storage.rows import fetch_all
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant
from support.wire import add_key, add_user

pytestmark = pytest.mark.anyio

ELSEWHERE = "test"


async def test_users_of_the_tenant_and_keys_of_the_environment_have_names(
    service: Service, acme: Tenant, globex: Tenant
) -> None:
    names, users, keys = {}, {}, {}
    for tenant in (acme, globex):
        name, _ = await add_user(service, tenant, "approver")
        names[tenant.id] = name
        for environment in ("production", ELSEWHERE):
            await add_key(tenant, environment, name=f"ledger of {tenant.slug} in {environment}")
    async with service.factory.context.database.control(readonly=True) as connection:
        for row in await fetch_all(connection, "SELECT username, id FROM app_user"):
            users[row["username"]] = f"user:{row['id']}"
        for row in await fetch_all(connection, "SELECT name, public_id FROM api_key"):
            keys[row["name"]] = f"api_key:{row['public_id']}"
    whoever = [*users.values(), *keys.values(), None, "engine:7", "user:bob", "user:", "api_key:", "user:" + "0" * 36]
    own, key = names[acme.id], f"ledger of {acme.slug} in production"
    scope = await scope_of_tenant(service.factory, acme)
    caller = Caller(principal=Principal(kind="system", name="test"), request_id="test", scope=scope)
    found = await service.factory.create_actor_name_service().names(caller, whoever)
    assert (found[users[own]], found[keys[key]]) == (own, key)
    assert users[names[globex.id]] not in found
    assert keys[f"ledger of {acme.slug} in {ELSEWHERE}"] not in found
    assert keys[f"ledger of {globex.slug} in production"] not in found
    assert not {"engine:7", "user:bob", "user:", "api_key:"} & found.keys()
