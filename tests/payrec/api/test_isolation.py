"""Nobody sees or changes anything of another tenant or environment, on any operation of the interface.

The walk takes its operations from the OpenAPI document, so that a new one is walked without anybody thinking of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx2
import pytest

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.gate.routes import ROUTES, Access
from payrec.storage.database import Database
from payrec.storage.tenants import TenantStore, scope_of
from support.estate import Place, digest, fill
from support.postgres import cloned
from support.service import Service, make_config, running
from support.walk import Operation, operations
from support.wire import until

pytestmark = pytest.mark.anyio

ENVIRONMENTS = ("production", "test")
ACCESS = {f"{route.method} {route.path}": route.access for route in ROUTES}
PUBLIC = {Access.PUBLIC, Access.PUBLIC_IN_DEVELOPMENT}


@dataclass(slots=True, kw_only=True)
class World:
    """Two tenants with two full environments each. The first one's production environment is the attacker's."""

    addresses: EmbeddedDatabase
    service: Service
    places: list[Place]
    operations: list[Operation]

    @property
    def attacker(self) -> Place:
        """Who asks for what is not theirs."""
        return self.places[0]

    @property
    def others(self) -> list[Place]:
        """Whose things they are."""
        return self.places[1:]

    async def digests(self) -> list[dict[str, str]]:
        """Return the digests of all that is not the attacker's."""
        return [await digest(self.addresses.superuser_url, place) for place in self.others]


def shown(body: dict[str, Any]) -> list[Any]:
    """Return the rows of a list, or the lines of a report."""
    return list(body["data"] if "data" in body else body["lines"])


@dataclass(slots=True, kw_only=True)
class Walker:
    """Asks with one credential of the attacker, and keeps what should not have come back."""

    world: World
    credential: dict[str, str]
    findings: list[str] = field(default_factory=list)
    requests: int = 0
    succeeded: set[str] = field(default_factory=set)
    """Names of the operations that did something for the attacker."""

    async def ask(self, operation: Operation, path: str, **options: Any) -> httpx2.Response:
        """Send a request; whatever comes back is searched for secrets of others."""
        attacker = self.world.attacker
        headers = {
            "X-Tenant-Id": attacker.tenant.id,
            "X-Environment": attacker.environment,
            **self.credential,
            **options.pop("headers", {}),
        }
        url = attacker.tenant.base_url + path
        answer = await attacker.tenant.http.request(operation.method, url, headers=headers, **options)
        self.requests += 1
        text = answer.text + repr(answer.headers)
        for place in self.world.others:
            found = [secret for secret in place.secrets if secret in text]
            if found:
                self.findings.append(f"{operation.name} told {len(found)} secrets of {place.schema}")
        if answer.is_success:
            self.succeeded.add(operation.name)
        if answer.status_code >= 500:
            self.findings.append(f"{operation.name} answered {answer.status_code}")
        return answer

    async def paths(self) -> None:
        """Ask for everything of everybody else by its id, on every operation that takes one."""
        for operation in self.world.operations:
            if not operation.in_path:
                continue
            body = next(operation.bodies(["x"]), None)
            for place in self.world.others:
                ids = {**place.bait_ids}
                if place.tenant.id != self.world.attacker.tenant.id:
                    ids["tenant"] = place.tenant.id
                for kind, value in ids.items():
                    answer = await self.ask(operation, operation.at(value), json=body)
                    if answer.is_success:
                        self.findings.append(f"{operation.name} took the {kind} of {place.schema}")

    async def queries(self) -> None:
        """Filter every list by what others have: texts, ids and cursors."""
        for operation in self.world.operations:
            if operation.method != "GET" or operation.in_path:
                continue
            for name, schema in operation.query_parameters:
                if "enum" in schema or schema.get("type") != "string" or schema.get("format") in {"date", "date-time"}:
                    continue
                for place in self.world.others:
                    for value in await self._values(operation, name, schema, place):
                        answer = await self.ask(operation, operation.path, params={name: value})
                        if answer.is_success and shown(answer.json()):
                            self.findings.append(f"{operation.name} found something by {name} of {place.schema}")

    async def _values(self, operation: Operation, name: str, schema: dict[str, Any], place: Place) -> list[str]:
        if name == "cursor":
            first = await place.tenant.get(operation.path, place.environment, params={"limit": 1})
            cursor = first.json().get("nextCursor") if first.is_success else None
            return [cursor] if cursor else []
        if schema.get("format") == "uuid":
            return list(place.bait_ids.values())
        return [place.bait, f"{place.bait}-0"]

    async def headers(self) -> None:
        """Name other tenants and environments in the headers of every operation."""
        for operation in self.world.operations:
            if ACCESS[operation.name] in PUBLIC:
                continue
            for place in self.world.others:
                named = {"X-Tenant-Id": place.tenant.id, "X-Environment": place.environment}
                is_key = "X-Api-Key" in self.credential
                if place.tenant.id == self.world.attacker.tenant.id and not is_key:
                    continue
                answer = await self.ask(operation, operation.at(place.bait_ids["job"]), headers=named)
                expected = "tenant_mismatch"
                if place.tenant.id == self.world.attacker.tenant.id:
                    expected = "environment_mismatch"
                if answer.json().get("code") != expected:
                    self.findings.append(f"{operation.name} let {place.schema} be named: {answer.status_code}")

    async def bodies(self, text: str, identifier: str) -> None:
        """Say in every body what belongs to somebody else."""
        for operation in self.world.operations:
            if operation.in_path:
                continue
            said = [*operation.bodies([text])]
            if operation.path == "/matches/match":
                said += [
                    {"dryRun": True, "incomingFilter": {"importId": identifier}},
                    {"dryRun": True, "expectedFilter": {"externalId": f"{text}-0"}},
                ]
            if operation.path == "/incoming-transactions/upload":
                money = {"direction": "credit", "amount": "10.00", "currency": "EUR", "bookingDate": "2024-03-04"}
                said.append([{**money, "externalId": f"{text}-0", "remittance": text}])
            if operation.path == "/matches/import":
                names = {"expectedExternalId": f"{text}-0", "incomingExternalId": f"{text}-0", "amountMinor": 1000}
                said.append([{**names, "decidedAt": "2024-03-04T08:00:00Z", "decidedBy": text, "reviewed": True}])
            if operation.path == "/accounts":
                # That of the text alone was made by the first line that named it.
                said.append({"identifier": f"{text} of nobody", "currency": "EUR"})
            if operation.path == "/webhooks":
                said.append({"url": f"https://127.0.0.1:65535/{text}", "events": ["*"], "description": text})
            if operation.path == "/matches":
                said.append(await self._stated(text))
            said += await self._acknowledged(operation) + await self._next_day(operation, text)
            said += await self._erased(operation, text)
            for body in said:
                await self.ask(operation, operation.path, json=body)
            if operation.path == "/expected-transactions/snapshots" and operation.method == "POST":
                there = {"externalId": f"{text}-0", "openAmountMinor": 1, "currency": "EUR", "amountMinor": 1}
                totals = json.dumps([{"currency": "EUR", "count": 1, "amountMinor": 1}])
                options = {"takenAt": datetime.now(UTC).isoformat(), "controlTotals": totals, "apply": "true"}
                await self.ask(operation, operation.path, json=[{**there, "direction": "credit"}], params=options)
            if operation.path == "/fx-rates/upload":
                headers = {"content-type": "application/octet-stream"}
                await self.ask(operation, operation.path, content=b"Date,USD\n2024-03-04,1.1\n", headers=headers)

    async def _stated(self, text: str) -> dict[str, Any]:
        """Return a match by hand of two transactions of one's own that say what belongs to somebody else."""
        money = {"direction": "credit", "amountMinor": 1000, "currency": "EUR"}
        ids = {}
        for side, more in (("expected", {"reference": text}), ("incoming", {"bookingDate": "2024-03-04"})):
            body = {**money, **more}
            made = await self.world.attacker.tenant.post(f"/{side}-transactions", body, self.world.attacker.environment)
            ids[f"{side}TransactionId"] = made.json()["id"]
        return {"legs": [{**ids, "amountMinor": 1}], "reason": text}

    async def _acknowledged(self, operation: Operation) -> list[dict[str, Any]]:
        """Return the bodies of an acknowledgement: what was acknowledged before, which may be said again."""
        if operation.name != "POST /postings/acknowledgements":
            return []
        answer = await self.world.attacker.tenant.get(operation.path, self.world.attacker.environment)
        return [{name: one[name] for name in ("throughSequence", "externalBatchId")} for one in answer.json()["data"]]

    async def _next_day(self, operation: Operation, text: str) -> list[dict[str, Any]]:
        """Return the bodies of a lock: of the day after all that was locked before."""
        if operation.name != "POST /period-locks":
            return []
        answer = await self.world.attacker.tenant.get(operation.path, self.world.attacker.environment)
        last = max((date.fromisoformat(one["through"]) for one in answer.json()["data"]), default=date(2024, 1, 1))
        return [{"through": str(last + timedelta(days=1)), "reason": text, "override": True}]

    async def _erased(self, operation: Operation, text: str) -> list[dict[str, Any]]:
        """Return the bodies of an erasure, when no run is at work any more that may have read it."""
        if operation.name != "POST /privacy/erasures":
            return []
        attacker = self.world.attacker

        async def done() -> bool | None:
            answer = await attacker.tenant.get("/jobs", attacker.environment, params={"kind": "match", "limit": 200})
            return all(job["status"] not in {"queued", "running"} for job in answer.json()["data"]) or None

        await until(done)
        return [{"counterpartyName": f"{text} of nobody", "reason": text}]

    async def look_around(self) -> None:
        """Read every list of one's own to its end, and ask for whatever takes neither a body nor an id."""
        for operation in self.world.operations:
            if operation.body_schema is None and not operation.in_path:
                takes_limit = any(name == "limit" for name, _ in operation.query_parameters)
                await self.ask(operation, operation.path, params={"limit": 200} if takes_limit else {})


@asynccontextmanager
async def _world(postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    with cloned(postgres) as made:
        async with running(make_config(made)) as service:
            tenants = [await service.tenant(slug, environments=list(ENVIRONMENTS)) for slug in ("acme", "globex")]
            places = [
                await fill(tenant, environment, made.superuser_url)
                for tenant in tenants
                for environment in ENVIRONMENTS
            ]
            for place in places:
                place.secrets -= {tenant.id for tenant in tenants}
            places[2].secrets |= {"globex"}
            document = (await service.http.get(f"{service.base_url}/api/openapi.json")).json()
            yield World(addresses=made, service=service, places=places, operations=operations(document))


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    """Return the world that the module's tests walk."""
    async with _world(postgres) as made:
        yield made


@pytest.fixture(params=["token", "api key"])
async def walker(world: World, request: pytest.FixtureRequest) -> Walker:
    """Return who walks: the attacker's administrator, or a key that may read and write."""
    if request.param == "token":
        return Walker(world=world, credential={"Authorization": f"Bearer {world.attacker.tenant.token}"})
    return Walker(world=world, credential={"X-Api-Key": world.attacker.api_key})


async def test_ids_of_others_are_unknown_on_every_path(world: World, walker: Walker) -> None:
    before = await world.digests()
    await walker.paths()
    assert walker.findings == []
    assert walker.requests > 100
    assert await world.digests() == before


async def test_filters_and_cursors_of_others_find_nothing(world: World, walker: Walker) -> None:
    before = await world.digests()
    await walker.queries()
    assert walker.findings == []
    assert walker.requests > 100
    assert await world.digests() == before


async def test_headers_of_others_are_refused_on_every_operation(world: World, walker: Walker) -> None:
    before = await world.digests()
    await walker.headers()
    assert walker.findings == []
    assert walker.requests >= 2 * sum(ACCESS[o.name] not in PUBLIC for o in world.operations)
    assert await world.digests() == before


async def test_bodies_that_name_things_of_others_reach_nothing(world: World, walker: Walker) -> None:
    before = await world.digests()
    place = world.others[1 if "Authorization" in walker.credential else 0]
    await walker.bodies(place.bait, place.bait_ids["import"])
    await walker.look_around()
    assert walker.findings == []
    # What never did anything for the attacker could not have done anything wrong either.
    collections = {o.name for o in world.operations if not o.in_path} - {"POST /auth/token"}
    for_people = {o.name for o in world.operations if ACCESS[o.name] is Access.JWT_ONLY}
    assert collections - walker.succeeded == (
        set() if "Authorization" in walker.credential else for_people & collections
    )
    assert await world.digests() == before


async def test_an_external_id_of_another_environment_is_free(world: World) -> None:
    for place in world.others:
        body = {"direction": "credit", "amount": "1.00", "currency": "EUR", "externalId": f"{place.secret}-1"}
        answer = await world.attacker.tenant.post("/expected-transactions", body, "production")
        assert answer.status_code == 201
    for place in world.others:
        place.secrets.discard(place.secret)


async def test_an_idempotency_key_of_another_environment_is_free(world: World) -> None:
    body = {"direction": "credit", "amount": "1.00", "currency": "EUR"}
    answers = [
        await place.tenant.post("/expected-transactions", body, place.environment, headers={"Idempotency-Key": "same"})
        for place in world.places
    ]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == len(world.places)
    assert not any("Idempotency-Replayed" in answer.headers for answer in answers)


async def test_the_same_file_is_another_import_in_every_environment(world: World) -> None:
    record = {"direction": "debit", "amount": "8.00", "currency": "EUR", "bookingDate": "2024-03-05"}
    answers = [
        await place.tenant.post("/incoming-transactions/upload", [record], place.environment) for place in world.places
    ]
    assert [(a.status_code, a.json()["counts"]["accepted"]) for a in answers] == [(201, 1)] * len(world.places)


async def test_a_door_that_opens_somebody_else_s_room_would_be_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.service.factory.context.database.control(readonly=True) as connection:
        scopes = {row["schema_name"]: scope_of(row) for row in await TenantStore(connection).scopes()}
    wrong = scopes[world.others[1].schema]
    right = Database.tenant
    monkeypatch.setattr(Database, "tenant", lambda self, _scope, **options: right(self, wrong, **options))
    walker = Walker(world=world, credential={"X-Api-Key": world.attacker.api_key})
    await walker.paths()
    assert any("took the" in finding for finding in walker.findings)
    assert any("told" in finding for finding in walker.findings)
