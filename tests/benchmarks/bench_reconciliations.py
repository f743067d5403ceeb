"""Time the reconciliation statement of an account over HTTP: ``bench_reconciliations.py [lines] [--times N]``.

The account has so many lines over a year, of which most are matched one by one, in matches that lie in no order of
days. Asked for are cut-offs at the end of the year, of its last but one month, and in the middle, each also as of an
instant, before and after a fiftieth of the matches is reversed, and the summary at the end of that month. Then all of
it is locked: refused for the lines that are open, locked all the same, and reopened. Beside each time is the processor
time of the database's processes, which other load does not change. The server is a real one with its durable settings.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_run import durable_server

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.logs import configure_logging
from payrec.storage.partitions import ensure_partitions
from support.postgres import cloned
from support.service import Tenant, make_config, running
from support.tenant_data import scope_of_tenant

CUT_OFFS: Final = ("2025-12-31", "2025-11-30", "2025-06-30")
LOCKS: Final = "/period-locks"
FILL: Final = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT n, d, minor, day, at,
    ('01900000-' || lpad(to_hex(n / 65536), 4, '0') || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id,
    ('01900000-' || lpad(to_hex(p / 65536), 4, '0') || '-7000-8000-' || lpad(to_hex(p), 12, '0'))::uuid AS match_id
FROM (
    SELECT n, n * 7919 % 100 AS d, n * 104729 % 90000 + 1000 AS minor, n * 15485863 % {lines} AS p,
        timestamptz '2025-01-01T12:00:00Z' + n * interval '365 days' / {lines} AS at,
        date '2025-01-01' + (n * 365 / {lines})::int AS day
    FROM generate_series(0::bigint, {lines} - 1) n
) numbers;
INSERT INTO incoming_transaction (id, change_id, amount_minor, created_at, updated_at, booking_on, identity,
    fingerprint, currency, direction, external_id, account, remittance, counterparty_name)
SELECT id, id, minor, at, at, day, decode(md5('i' || n), 'hex'), decode(md5('f' || n), 'hex'), 'EUR', 'credit',
    'I' || n, 'GIRO', 'Invoice INV-' || n, 'Customer ' || n % 3000
FROM made;
INSERT INTO allocation (transaction_id, side, amount_minor, allocated_minor, updated_at, version, status)
SELECT id, 2, minor, CASE WHEN d < 88 THEN minor WHEN d < 89 THEN minor / 2 ELSE 0 END, at, 2,
    CASE WHEN d < 88 THEN 'matched' WHEN d < 89 THEN 'partially_matched' ELSE 'classified' END
FROM made WHERE d < 92;
INSERT INTO incoming_open (transaction_id, open_minor, total_minor, tie_key, booking_day, direction, currency,
    reference_keys)
SELECT id, minor, minor, n, day - date '1970-01-01', 1, 'EUR', '{{}}' FROM made WHERE d >= 92 OR d = 88;
INSERT INTO match (id, amount_minor, created_at, updated_at, score, status, kind, confidence, uniqueness, currency,
    created_by, decided_by, effective_on, levels)
SELECT match_id, minor, at, at, 9000, 'accepted', 'one_to_one', 'exact', 'unique', 'EUR', 'engine:1', 'engine:1', day,
    '{{1}}'
FROM made WHERE d < 89;
INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, amount_minor, settled_minor, settled_currency)
SELECT match_id, 1, gen_random_uuid(), id, CASE WHEN d < 88 THEN minor ELSE minor / 2 END,
    CASE WHEN d < 88 THEN minor ELSE minor / 2 END, 'EUR'
FROM made WHERE d < 89;
"""

REVERSE: Final = """
CREATE TEMPORARY TABLE undone ON COMMIT DROP AS
SELECT m.id AS match_id, l.incoming_id AS id, gen_random_uuid() AS change_id
FROM match m JOIN leg l ON l.match_id = m.id JOIN allocation a ON a.side = 2 AND a.transaction_id = l.incoming_id
WHERE a.status = 'matched' AND a.amount_minor % 50 = 0;
INSERT INTO change (id) SELECT change_id FROM undone;
INSERT INTO match_state (match_id, returned_minor, updated_at, effective_on, version, sampled, status, decided_by)
SELECT m.id, 0, m.updated_at, m.effective_on, m.version, false, m.status, m.decided_by
FROM undone u JOIN match m ON m.id = u.match_id;
UPDATE match m SET status = 'reversed', version = 2, change_id = u.change_id FROM undone u WHERE m.id = u.match_id;
INSERT INTO allocation_state (transaction_id, side, amount_minor, allocated_minor, updated_at, version, status)
SELECT a.transaction_id, a.side, a.amount_minor, a.allocated_minor, a.updated_at, a.version, a.status
FROM undone u JOIN allocation a ON a.side = 2 AND a.transaction_id = u.id;
UPDATE allocation a SET allocated_minor = 0, status = 'unmatched', version = 3, change_id = u.change_id
FROM undone u WHERE a.side = 2 AND a.transaction_id = u.id;
INSERT INTO incoming_open (transaction_id, open_minor, total_minor, tie_key, booking_day, direction, currency,
    reference_keys)
SELECT i.id, i.amount_minor, i.amount_minor, 1, i.booking_on - date '1970-01-01', 1, 'EUR', '{}'
FROM undone u JOIN incoming_transaction i ON i.id = u.id;
"""


def processor_seconds(data_directory: Path) -> float:
    """Return what the database's processes have taken, those that have ended included."""
    server = psutil.Process(int((data_directory / "postmaster.pid").read_text().split()[0]))
    own, total = server.cpu_times(), 0.0
    for process in server.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:2])
    return total + sum(own[:4])


async def timed(what: str, times: int, database: Path, ask: Callable[[], Awaitable[int]], *, wanted: int = 200) -> None:
    """Ask so often, and print what it took; the first time does not count."""
    took, spent = [], []
    for _ in range(times + 1):
        before, start = processor_seconds(database), time.perf_counter()
        status = await ask()
        took.append(time.perf_counter() - start)
        spent.append(processor_seconds(database) - before)
        if status != wanted:
            raise RuntimeError(f"{what}: {status}")
    counted, median = sorted(took[1:]), len(took[1:]) // 2
    sys.stdout.write(
        f"{what}: median {counted[median] * 1e3:.0f} ms, worst {counted[-1] * 1e3:.0f} ms, "
        f"processor {sorted(spent[1:])[median] * 1e3:.0f} ms\n"
    )


async def timed_report(tenant: Tenant, path: str, times: int, database: Path, **asked: str) -> None:
    """Ask for a report so often."""

    async def ask() -> int:
        return (await tenant.get(path, params=asked)).status_code

    await timed(" ".join([path.rsplit("/", 1)[-1], *(f"{n}={v}" for n, v in asked.items())]), times, database, ask)


async def timed_lock(tenant: Tenant, times: int, database: Path) -> None:
    """Lock everything so often: refused, then all the same; what is reopened meanwhile counts as well."""
    body: dict[str, Any] = {"through": CUT_OFFS[0], "reason": "bench"}

    async def refused() -> int:
        return (await tenant.post(LOCKS, body)).status_code

    async def locked() -> int:
        answer = await tenant.post(LOCKS, {**body, "override": True})
        await tenant.post(f"{LOCKS}/{answer.json()['id']}/reopen", {"reason": "bench"})
        return answer.status_code

    await timed("lock over open lines", times, database, refused, wanted=409)
    await timed("lock with override, and reopened", times, database, locked, wanted=201)


async def bench(database: EmbeddedDatabase, lines: int, *, times: int) -> None:
    """Fill, ask, print."""
    configure_logging(level="warning", form="json")
    async with running(make_config(database), worker=False) as service:
        tenant = await service.tenant("bench", environments=["production"])
        scope = await scope_of_tenant(service.factory, tenant)
        opening: dict[str, Any] = {"openingBalanceMinor": 0, "openingOn": "2025-01-01"}
        made = await tenant.post("/accounts", {"identifier": "GIRO", "currency": "EUR", **opening})
        path = f"/accounts/{made.json()['id']}/reconciliation"
        async with service.factory.context.database.tenant(scope) as connection:
            await ensure_partitions(connection)
            await connection.execute(FILL.format(lines=lines).encode(), prepare=False)
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
            [at, kept] = (
                connection.execute("SELECT clock_timestamp(), current_setting('data_directory')").fetchone() or []
            )
            folder = Path(kept)
        then = {"asOf": at.isoformat()}
        for as_of in ({}, then):
            for day in CUT_OFFS:
                await timed_report(tenant, path, times, folder, cutOff=day, **as_of)
        told = (await tenant.get(path, params=then)).json()
        async with service.factory.context.database.tenant(scope) as connection:
            await connection.execute(REVERSE.encode(), prepare=False)
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
        sys.stdout.write("after a fiftieth of the matches was reversed:\n")
        for day in CUT_OFFS:
            await timed_report(tenant, path, times, folder, cutOff=day, **then)
        if (await tenant.get(path, params=then)).json() != told:
            raise RuntimeError("what was is told otherwise now")
        for asked in ({}, {"cutOff": CUT_OFFS[1]}):
            await timed_report(tenant, "/reports/summary", times, folder, **asked)
        await timed_lock(tenant, times, folder)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    with durable_server() as postgres, cloned(postgres) as database:
        asyncio.run(bench(database, given.lines, times=given.times))


if __name__ == "__main__":
    main()
