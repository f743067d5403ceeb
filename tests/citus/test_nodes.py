"""A worker node that goes down takes along the tenants that are on it; nothing is lost, and nothing done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import cast

import psycopg
import pytest
from psycopg import sql

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.errors import UnavailableError
from support.causes import ended, everything_once, feed, table, uploaded
from support.citus import CitusServer, Node, NodeOutages, nodes_of
from support.outages import Installation, installed, surely
from support.postgres import DURABLE, cloned
from support.service import Tenant
from support.tenant_data import scope_of_tenant

pytestmark = pytest.mark.anyio

ITEM = {"direction": "credit", "currency": "EUR", "amount": "1.00"}
LINE = {**ITEM, "bookingDate": "2026-03-01", "account": "DE02120300000000202051"}

ONE_PART = "INSERT INTO change (id) VALUES (gen_random_uuid())"
TWO_PARTS = f"WITH made AS ({ONE_PART} RETURNING id) INSERT INTO audit_unsealed (change_id) SELECT id FROM made"  # noqa: S608
"""Of one part a worker is told COMMIT alone, else it prepares before."""


@pytest.fixture(scope="module")
def crash(postgres: CitusServer) -> NodeOutages:
    coordinator, *workers = postgres.nodes
    if len(workers) < 2:
        pytest.skip("PAYREC_TEST_CITUS_URL: the cluster has one worker alone")
    return NodeOutages(postgres, workers[0], helper=coordinator)


@pytest.fixture(scope="module")
def addresses(postgres: CitusServer) -> Iterator[EmbeddedDatabase]:
    with cloned(cast("EmbeddedPostgres", postgres)) as made:
        name = psycopg.conninfo.conninfo_to_dict(made.url)["dbname"]
        for node in postgres.nodes:
            with node.connect(postgres.home) as connection:
                for setting, value in DURABLE.items():
                    query = sql.SQL("ALTER DATABASE {} SET {} = {}")
                    connection.execute(query.format(sql.Identifier(name), sql.Identifier(setting), value))
        yield made


@pytest.fixture(scope="module")
async def place(
    addresses: EmbeddedDatabase, crash: NodeOutages, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    async with installed(addresses, crash, tmp_path_factory.mktemp("installed")) as made:
        yield made


async def tenant_on(place: Installation, node: Node, slug: str) -> Tenant:
    """Make a tenant whose environments are on a node."""
    tenant = await place.service.tenant(slug)
    scope = await scope_of_tenant(place.service.factory, tenant)
    if nodes_of(place.database, scope.schema_name) != [(node.host, node.port)]:
        with psycopg.connect(place.database.superuser_url, autocommit=True) as connection:
            connection.execute("SELECT citus_schema_move(%s, %s, %s)", (scope.schema_name, node.host, node.port))
    return tenant


async def test_who_is_on_another_node_reads_and_posts_meanwhile(
    place: Installation, postgres: CitusServer, crash: NodeOutages
) -> None:
    _, one, other, *_ = postgres.nodes
    here, there = await tenant_on(place, one, "initech"), await tenant_on(place, other, "hooli")
    first = (await here.post("/expected-transactions", ITEM)).json()["id"]
    crash.go_down()
    try:
        for ask in (here.get("/expected-transactions"), here.post("/expected-transactions", ITEM)):
            refused = await ask
            assert (refused.status_code, refused.json()["code"]) == (503, "service_unavailable")
            assert "retry-after" in refused.headers
        ids = []
        for path, body in (("/expected-transactions", ITEM), ("/incoming-transactions", LINE)):
            made = await there.post(path, body)
            assert made.status_code == 201, made.text
            ids.append(made.json()["id"])
            assert ids[-1] in {row["id"] for row in (await there.get(path)).json()["data"]}
        events = await feed(there, 2, {"expected_transaction.created", "incoming_transaction.created"})
        assert [event["position"] for event in events] == list(range(1, len(events) + 1))
        # The parts of a decision, and tables for what is staged, are told to every node.
        leg = dict(zip(("expectedTransactionId", "incomingTransactionId"), ids, strict=True))
        decision = {"legs": [{**leg, "amountMinor": 100}], "reason": "seen"}
        for waits in (
            await there.post("/matches", decision),
            await there.post("/incoming-transactions/upload", files={"file": ("bank.csv", table(1, 3))}),
        ):
            assert (waits.status_code, waits.json()["code"]) == (503, "service_unavailable")
    finally:
        crash.come_back()
    assert (await surely(lambda: here.get(f"/expected-transactions/{first}"))).status_code == 200
    assert (await surely(lambda: there.post("/matches", decision))).status_code == 201
    assert (await ended(there, f"/imports/{await uploaded(there, 1, 3)}"))["counts"]["accepted"] == 3


@pytest.mark.parametrize("statement", [ONE_PART, TWO_PARTS])
async def test_who_commits_while_a_node_goes_down_is_told_to_come_again(
    place: Installation, postgres: CitusServer, crash: NodeOutages, statement: str
) -> None:
    tenant = await tenant_on(place, postgres.nodes[1], f"tenant{len(statement)}")
    scope = await scope_of_tenant(place.service.factory, tenant)

    async def commit() -> None:
        async with place.service.factory.context.database.tenant(scope) as connection:
            await connection.execute(statement.encode())
            crash.go_down()

    try:
        with pytest.raises(UnavailableError, match="did not answer"):
            await commit()
    finally:
        crash.come_back()


async def test_everything_is_done_once_while_a_node_goes_down_and_comes_back(
    place: Installation, postgres: CitusServer
) -> None:
    _, one, other, *_ = postgres.nodes
    acme, globex = await tenant_on(place, one, "acme"), await tenant_on(place, other, "globex")
    await everything_once(place, acme, globex)
