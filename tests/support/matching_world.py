"""A tenant environment in which something is matched, and another tenant's with the same content that stays still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from payrec.domain.scope import TenantScope
from payrec.errors import UnavailableError
from payrec.storage.rows import fetch_all
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant

DEADLINE_SECONDS = 60.0
CLEANED_AT_MOST = 3
"""How often tables are emptied when others have them."""

ENVIRONMENT = "production"
DECISIONS = ("allocation", "leg", "match")
HISTORY = ("allocation_state", "match_state", "open_reason_state", "reversal_link_state", "stated_row")
TABLES = (
    "posting_feed",  # first: who numbers postings reads it before the feed
    "outbox",  # the sealer reads it before it writes the feed
    *DECISIONS,
    *HISTORY,
    "account",
    "account_state",
    "alias",
    "alias_lesson",
    "audit_commitment",
    "audit_record",
    "audit_seal",
    "audit_unsealed",
    "blob_chunk",
    "book_balance",
    "calibration",
    "change",
    "counterparty_name",
    "erasure",
    "event",
    "event_feed",
    "expected_open",
    "open_reason",
    "expected_transaction",
    "export",
    "fx_rate",
    "fx_rate_state",
    "idempotency",
    "expected_snapshot_difference",
    "expected_snapshot",
    "imported_match_lesson",
    "imported_match",
    "import_problem",
    "statement",
    "import",
    "incoming_open",
    "incoming_transaction",
    "job",
    "learning_mark",
    "overdue_notice",
    "period_lock",
    "posting",
    "posting_acknowledgement",
    "posting_codes",
    "rejection_forgotten",
    "remittance_advice",
    "remittance_advice_line",
    "statement_notice",
    "reversal_link",
    "webhook",
    "webhook_delivery",
)
FILLED = " UNION ALL ".join(f"SELECT '{table}' AS name WHERE EXISTS (SELECT FROM {table})" for table in TABLES)  # noqa: S608
WORKER_LEAVES = frozenset(
    {
        "outbox",
        "event",
        "event_feed",
        "overdue_notice",
        "posting",
        "posting_codes",
        "posting_feed",
        "statement_notice",
        "audit_unsealed",
        "audit_commitment",
        "audit_seal",
    }
)
"""What a worker writes by itself, whenever it comes to it."""


@dataclass(slots=True, kw_only=True)
class World:
    """What is stored through it is stored in both environments; everything else happens in the first alone."""

    service: Service
    tenant: Tenant
    bystander: Tenant
    scope: TenantScope
    bystander_scope: TenantScope
    received: int = 0
    """Lines that were stored one by one."""

    async def expect(self, amount: str = "100.00", **fields: Any) -> str:
        """Store an expected transaction and return its id."""
        body = {"direction": "credit", "currency": "EUR", "dueDate": "2026-03-10", "amount": amount, **fields}
        return await self._store("/expected-transactions", body)

    async def receive(self, amount: str = "100.00", **fields: Any) -> str:
        """Store an incoming transaction and return its id; as at a bank, each has a reference of its own."""
        body = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "amount": amount}
        self.received += 1
        body = {**body, "bankReference": f"booking-{self.received:06}", **fields}
        return await self._store("/incoming-transactions", body)

    async def upload(self, records: list[dict[str, Any]]) -> dict[str, Any]:
        """Upload incoming transactions as a JSON file and return the import."""
        for tenant in (self.bystander, self.tenant):
            answer = await tenant.post("/incoming-transactions/upload", records)
            assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def _store(self, path: str, body: dict[str, Any]) -> str:
        for tenant in (self.bystander, self.tenant):
            answer = await tenant.post(path, {k: v for k, v in body.items() if v is not None})
            assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def rate(self, base: str, quote: str, rate: str, date: str = "2026-03-10") -> None:
        """Store an exchange rate in both environments."""
        item = {"date": date, "base": base, "quote": quote, "rate": rate}
        for tenant in (self.bystander, self.tenant):
            answer = await tenant.request("PUT", "/fx-rates", json={"items": [item]})
            assert {result["status"] for result in answer.json()["results"]} <= {200, 201}, answer.text

    async def set(self, **matching: Any) -> None:
        """Change the matching settings."""
        path = f"/tenants/{self.tenant.id}/settings"
        answer = await self.tenant.request("PATCH", path, json={"matching": matching})
        assert answer.status_code == 200, answer.text

    async def run(self, **body: Any) -> dict[str, Any]:
        """Run matching to its end and return the run."""
        answer = await self.tenant.post("/matches/match", {"wait": 60, **body})
        assert answer.status_code == 200, answer.text
        run: dict[str, Any] = answer.json()
        assert run["status"] == "succeeded", run
        return run

    async def matches(self, **parameters: Any) -> list[dict[str, Any]]:
        """Return matches, the oldest first."""
        answer = await self.tenant.get("/matches", params={"sort": "createdAt", "limit": 200, **parameters})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    async def proposal(self) -> dict[str, Any]:
        """Return the one proposal that there is."""
        [match] = await self.matches(status="proposed")
        return match

    async def accept(self, match: dict[str, Any], **headers: str) -> httpx2.Response:
        """Accept a match."""
        return await self.tenant.post(f"/matches/{match['id']}/accept", headers=headers)

    async def expected(self, transaction_id: str) -> dict[str, Any]:
        """Return an expected transaction."""
        found: dict[str, Any] = (await self.tenant.get(f"/expected-transactions/{transaction_id}")).json()
        return found

    async def incoming(self, transaction_id: str) -> dict[str, Any]:
        """Return an incoming transaction."""
        found: dict[str, Any] = (await self.tenant.get(f"/incoming-transactions/{transaction_id}")).json()
        return found

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""
        found: dict[str, Any] = (await self.tenant.get(f"/jobs/{job_id}")).json()
        return found

    async def ended(self, job_id: str) -> dict[str, Any]:
        """Return a job when it has ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DEADLINE_SECONDS
        while (job := await self.job(job_id))["status"] in {"queued", "running"}:
            assert loop.time() < until, f"the job did not end: {job}"
            await asyncio.sleep(0.02)
        return job

    async def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Do something in the first environment's schema and return the rows."""
        return await self._sql(self.scope, query, *parameters)

    async def digest(self, *tables: str) -> dict[str, Any]:
        """Return what tells whether anything in the tables has changed."""
        return await self._digest(self.scope, tables)

    async def clean(self) -> None:
        """Forget everything in both environments, and the settings."""
        for scope in (self.scope, self.bystander_scope):
            await self._emptied(scope)
        async with self.service.factory.context.database.control() as connection:
            await connection.execute("UPDATE tenant SET settings = '{}'")

    async def bystander_decisions(self) -> int:
        """Return how many decisions and runs there are in the other environment; nobody ever asked for one."""
        counts = [f"SELECT count(*) AS n FROM {table}" for table in ("leg", "match")]  # noqa: S608 - our own names
        counts.append("SELECT count(*) AS n FROM allocation WHERE allocated_minor > 0")
        counts.append("SELECT count(*) AS n FROM job WHERE kind = 'match'")
        rows = await self._sql(self.bystander_scope, " UNION ALL ".join(counts))
        return sum(row["n"] for row in rows)

    async def _emptied(self, scope: TenantScope) -> None:
        for left in reversed(range(CLEANED_AT_MOST)):
            try:
                async with self.service.factory.context.database.tenant(scope) as connection:
                    # All of them, and nobody comes between; but a table that is empty already costs as much as another.
                    await connection.execute(f"LOCK {', '.join(TABLES)}".encode())
                    filled = [row["name"] for row in await fetch_all(connection, FILLED)]
                    if filled:
                        await connection.execute(f"TRUNCATE {', '.join(filled)} CASCADE".encode())
            except UnavailableError:
                # Whoever numbers what the test before has decided holds one of the tables and waits for another.
                if not left:
                    raise
            else:
                return

    async def _sql(self, scope: TenantScope, query: str, *parameters: Any) -> list[dict[str, Any]]:
        async with self.service.factory.context.database.tenant(scope) as connection:
            if query.lstrip().upper().startswith(("SELECT", "WITH")) or "RETURNING" in query:
                return await fetch_all(connection, query, parameters or None)
            await connection.execute(query.encode(), parameters or None)
            return []

    async def _digest(self, scope: TenantScope, tables: tuple[str, ...]) -> dict[str, Any]:
        found = {}
        for table in tables:
            query = f"SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) AS md5 FROM {table} t"  # noqa: S608 - our own names
            [row] = await self._sql(scope, query)
            found[table] = row["md5"]
        return found


@asynccontextmanager
async def matching_world(service: Service, tenant: Tenant, bystander: Tenant) -> AsyncIterator[World]:
    """Give an empty world, and see to it at the end that the bystander has seen nothing of it."""
    world = World(
        service=service,
        tenant=tenant,
        bystander=bystander,
        scope=await scope_of_tenant(service.factory, tenant),
        bystander_scope=await scope_of_tenant(service.factory, bystander),
    )
    await world.clean()
    yield world
    assert await world.bystander_decisions() == 0
