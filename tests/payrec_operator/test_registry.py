"""The decisions with the service's own registry, on a real PostgreSQL: what the world in memory says of it is true."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from payrec.embedded.postgres import EmbeddedPostgres
from payrec_operator.conditions import by_type
from payrec_operator.outcome import Outcome
from payrec_operator.ports import World
from payrec_operator.reconcile import reconcile
from payrec_operator.resources import TenantResource
from support.operator_faults import Faults
from support.operator_secrets import MemorySecrets
from support.operator_world import make_key, make_spec
from support.postgres import cloned
from support.tenant_resources import ResourceWorld, new_owner, resource_world

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[ResourceWorld]:
    with cloned(postgres) as addresses:
        async with resource_world(addresses) as opened:
            yield opened


class Operated:
    """One Tenant, its namespace, and the service."""

    def __init__(self, service: ResourceWorld, **changed: Any) -> None:
        self.service = service
        slug = service.slug()
        self.secrets = MemorySecrets(Faults(lambda: None))
        self.world = World(registry=service.registry, secrets=self.secrets, base_url="https://payrec.example")
        owner = new_owner(slug)
        self.body: dict[str, Any] = {
            "metadata": {"uid": owner.uid, "namespace": owner.namespace, "name": slug, "generation": 1},
            "spec": make_spec(slug, **changed),
        }

    async def run(self, **annotations: str) -> Outcome:
        self.body["metadata"]["annotations"] = {f"payrec.dev/{verb}": value for verb, value in annotations.items()}
        if "finished" in annotations:
            self.body["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        self.secrets.catch_up()
        now = self.service.clock.now()
        outcome = await reconcile(TenantResource.parse(self.body), self.world, now=now, jitter=0.5)
        if outcome.status is not None:
            outcome.status.apply(self.body)
        return outcome

    async def opens(self, secret: str = "ledger-key", environment: str = "production") -> bool:
        """Tell whether the API lets the Secret's key in, as the Secret says."""
        data = self.secrets.stored["shops", secret].data
        assert data["environment"] == environment
        return await self.service.opens(data["api-key"], self.body["status"]["tenantId"], environment)

    def conditions(self) -> dict[str, str]:
        return {kind: c["reason"] for kind, c in by_type(self.body["status"]["conditions"]).items()}


async def test_it_is_made_and_then_at_rest(service: ResourceWorld) -> None:
    user = {"username": service.slug("ada"), "roles": ["admin"]}
    tenant = Operated(service, users=[user], displayName="Acme", settings={"baseCurrency": "CHF"})
    outcome = await tenant.run()
    assert (outcome.result, [str(e) for e in outcome.errors]) == ("reconciled", [])
    assert tenant.conditions() == {
        "Ready": "Reconciled",
        "SchemasReady": "SchemasApplied",
        "MigrationsCurrent": "UpToDate",
        "CredentialsReady": "SecretsSynced",
        "UsersReady": "UsersSynced",
    }
    assert await tenant.opens()
    records = await service.look("SELECT count(*) FROM control.audit_record")
    written, before = tenant.secrets.writes, repr(tenant.body)
    again = await tenant.run()
    assert (tenant.secrets.writes, repr(tenant.body), again.events) == (written, before, [])
    assert await service.look("SELECT count(*) FROM control.audit_record") == records


async def test_a_key_is_rotated_and_the_one_before_ends(service: ResourceWorld) -> None:
    tenant, other = Operated(service), Operated(service)
    await other.run()
    await tenant.run()
    first = tenant.secrets.stored["shops", "ledger-key"].data["api-key"]
    outcome = await tenant.run(rotate="1")
    assert outcome.rotations == {"rotated": 1}
    tenant_id = tenant.body["status"]["tenantId"]
    assert await tenant.opens()
    assert await service.opens(first, tenant_id, "production"), "it works until its overlap ends"
    service.clock.ahead += timedelta(hours=25)
    await tenant.run(rotate="1")
    assert tenant.conditions()["CredentialsReady"] == "SecretsSynced"
    assert "Rotating" not in tenant.conditions()
    assert not await service.opens(first, tenant_id, "production")
    assert await tenant.opens()
    assert await other.opens()


async def test_a_spec_that_changes_is_followed(service: ResourceWorld) -> None:
    tenant = Operated(service, deletionPolicy="Delete")
    await tenant.run()
    environments = [
        {"name": "production", "suspended": True},
        {"name": "test", "ensure": "absent"},
        {"name": "staging"},
    ]
    tenant.body["spec"] |= {
        "environments": environments,
        "apiKeys": [make_key("probe", "staging", permissions=["read"])],
    }
    outcome = await tenant.run()
    assert [str(e) for e in outcome.errors] == []
    states = {e["name"]: e["state"] for e in tenant.body["status"]["environments"]}
    assert states == {"production": "Suspended", "staging": "Applied", "test": "Dropped"}
    assert await tenant.opens("probe-key", "staging")
    assert [name for _, name in tenant.secrets.stored] == ["probe-key"]
    before = repr(tenant.body)
    await tenant.run()
    assert repr(tenant.body) == before


async def test_a_schema_that_was_dropped_is_back(service: ResourceWorld) -> None:
    tenant = Operated(service)
    await tenant.run()
    schema = tenant.body["status"]["environments"][1]["schemaName"]
    await service.look(f'DROP SCHEMA "{schema}" CASCADE')
    outcome = await tenant.run()
    assert "schema" in outcome.corrected
    assert tenant.conditions()["Ready"] == "Reconciled"
    assert schema in await service.schemas(schema)


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_a_deletion_ends_the_keys_and_keeps_or_drops_the_data(service: ResourceWorld, policy: str) -> None:
    tenant, other = Operated(service, deletionPolicy=policy), Operated(service)
    await other.run()
    await tenant.run()
    key = tenant.secrets.stored["shops", "ledger-key"].data["api-key"]
    schema = tenant.body["status"]["environments"][0]["schemaName"]
    outcome = await tenant.run(finished="yes")
    assert outcome.release
    assert tenant.secrets.stored == {}
    assert not await service.opens(key, tenant.body["status"]["tenantId"], "production")
    assert (await service.schemas(schema) == {schema}) == (policy == "Retain")
    assert await other.opens()
