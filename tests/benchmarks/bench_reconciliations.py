"""Time the reconciliation statement of an account over HTTP: ``bench_reconciliations.py [lines] [--times N]``.

The account has so many lines over a year, of which most are matched one by one, in matches that lie in no order of
days. Asked for are cut-offs at the end of the year, of its last but one month, and in the middle, each also as of an
instant, and the summary at the end of that month. The server is a real one with its durable settings.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any, Final

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


async def timed(tenant: Tenant, path: str, times: int, **asked: str) -> str:
    """Ask so often, and return what it took."""
    took = []
    for _ in range(times + 1):
        start = time.perf_counter()
        answer = await tenant.get(path, params=asked)
        took.append(time.perf_counter() - start)
        answer.raise_for_status()
    counted = sorted(took[1:])
    told = " ".join(f"{name}={value}" for name, value in asked.items())
    median, worst = counted[len(counted) // 2], counted[-1]
    return f"{path.rsplit('/', 1)[-1]} {told}: median {median * 1e3:.0f} ms, worst {worst * 1e3:.0f} ms"


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
            [at] = connection.execute("SELECT clock_timestamp()").fetchone() or [None]
        for as_of in ({}, {"asOf": at.isoformat()}):
            for day in CUT_OFFS:
                sys.stdout.write(await timed(tenant, path, times, cutOff=day, **as_of) + "\n")
        for asked in ({}, {"cutOff": CUT_OFFS[1]}):
            sys.stdout.write(await timed(tenant, "/reports/summary", times, **asked) + "\n")


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
