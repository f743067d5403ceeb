"""Time runs of a tenant of whom all ask for one price: ``bench_one_price.py [items] [--new N]``.

Everything of an amount is beside everything else of it, and no planner knows how much that is. Each run is timed with
so many items and with twice as many, from PostgreSQL to PostgreSQL; what grows as the rows do takes twice as long:

- ``filtered``: over some new lines, which name nobody's invoice, while as many are open as there are items;
- ``all``: over everything that is open then;
- ``returns``: links returns, each of which quotes the invoice whose payment it takes back;
- ``expected late``: after payments that nobody expected were taken back, items of that price come.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from bench_one_line import load, run
from bench_run import durable_server

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.bench.scenarios import RETURN_CODES
from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.factory import Factory
from support.postgres import cloned
from support.service import make_config, running
from support.tenant_data import scope_of_tenant

PRICE_MINOR = 999
RETURNS_SHARE = 20
"""Of so many payments one is taken back; of those that nobody expected, each."""
DUE = date(2026, 3, 2)


def _payer(number: pl.Expr) -> dict[str, pl.Expr]:
    """Return a name whose words nobody else has, and an account."""
    letters = pl.concat_str(
        [(number // 26**place % 26 + 65).cast(pl.UInt8).cast(pl.Binary).cast(pl.String) for place in range(4)]
    )
    return {
        "counterparty_name": pl.concat_str([letters, pl.lit("ov "), letters, pl.lit("ina")]),
        "counterparty_iban": pl.format("DE1250010517{}", number.cast(pl.String).str.zfill(10)),
    }


def _numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"id": pl.int_range(first, first + count, eager=True)})


def _shaped(rows: pl.DataFrame, schema: dict[str, Any]) -> pl.DataFrame:
    empty = {name: "" if kind == pl.String else None for name, kind in schema.items() if name not in rows.columns}
    filled = rows.with_columns(**{name: pl.lit(value) for name, value in empty.items()})
    return filled.select(pl.col(name).cast(kind) for name, kind in schema.items())


def items(first: int, count: int) -> pl.DataFrame:
    """Return items, each of another payer."""
    rows = _numbers(first, count).with_columns(
        **_payer(pl.col("id")), amount_minor=PRICE_MINOR, currency=pl.lit("EUR"), due_date=DUE,
        reference=pl.format("INV-{}", pl.col("id") + 3_100_000),
    )  # fmt: skip
    return _shaped(rows, dict(EXPECTED_SCHEMA))


def lines(first: int, count: int, text: str, *, days: int = 1, code: str = "") -> pl.DataFrame:
    """Return what these payers pay, or what is taken back of it: ``{}`` in the text is the number of the invoice."""
    said = pl.format(text, pl.col("id") + 3_100_000) if "{}" in text else pl.lit(text)
    rows = _numbers(first, count).with_columns(
        **_payer(pl.col("id")), amount_minor=-PRICE_MINOR if code else PRICE_MINOR, currency=pl.lit("EUR"),
        booking_date=DUE + timedelta(days=days), value_date=DUE + timedelta(days=days), remittance=said,
        end_to_end_id=pl.format("E2E-{}", pl.col("id")) if "{}" not in text else pl.lit(""), tx_code=pl.lit(code),
    )  # fmt: skip
    # Those that are taken back are other lines of the same payers.
    return _shaped(rows.with_columns(pl.col("id") + days * 10**9), dict(INCOMING_SCHEMA))


@dataclass(frozen=True)
class Bench:
    """One tenant, and the database that it is in."""

    factory: Factory
    scope: TenantScope
    database: EmbeddedDatabase

    async def store(self, **sides: pl.DataFrame) -> datetime:
        """Store rows, have the database look at them, and return when they came."""
        now = datetime.now(UTC)
        await load(self.factory, self.scope, now, **sides)
        with psycopg.connect(self.database.superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        return now

    async def run(self, **params: Any) -> float:
        """Run, and return the seconds that it took."""
        return float((await run(self.factory, self.scope, params))["total"])


async def timed(bench: Bench, count: int, new: int) -> dict[str, float]:
    """Return the seconds of each run."""
    taken = {}
    await bench.store(expected=items(0, count), incoming=lines(0, count - new, "Invoice INV-{} thank you"))
    now = await bench.store(incoming=lines(count - new, new, "thank you"))
    taken["filtered"] = await bench.run(incomingFilter={"createdFrom": now.isoformat()})
    taken["all"] = await bench.run()
    back = count // RETURNS_SHARE
    await bench.store(incoming=lines(0, back, "RETURN INV-{}", days=3, code=RETURN_CODES[0]))
    taken["returns"] = await bench.run()
    unexpected = 10 * count
    await bench.store(incoming=lines(unexpected, back, "thank you"))
    await bench.run()
    await bench.store(incoming=lines(unexpected, back, "thank you", days=3, code=RETURN_CODES[0]))
    await bench.run()
    await bench.store(expected=items(2 * count, count))
    taken["expected late"] = await bench.run()
    return taken


async def main() -> None:
    """Parse the arguments, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", type=int, nargs="?", default=20_000)
    parser.add_argument("--new", type=int, default=10, help="of so many lines one is new (default 10)")
    given = parser.parse_args()
    found = []
    with durable_server() as postgres:
        for times in (1, 2):
            count = given.items * times
            with cloned(postgres) as database:
                async with running(make_config(database), worker=False) as service:
                    tenant = await service.tenant("bench", environments=["production"])
                    settings = {"matching": {"autoAccept": True, "autoAcceptMinConfidence": "high"}}
                    await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json=settings)
                    scope = await scope_of_tenant(service.factory, tenant)
                    bench = Bench(service.factory, scope, database)
                    found.append(await timed(bench, count, count // given.new))
    out = sys.stdout
    out.write(f"{given.items} and {2 * given.items} items; load {os.getloadavg()[0]:.1f}\n")
    for name, seconds in found[0].items():
        out.write(f"{name:15} {seconds:7.2f} s {found[1][name]:7.2f} s, {found[1][name] / seconds:.1f} times\n")


if __name__ == "__main__":
    asyncio.run(main())
