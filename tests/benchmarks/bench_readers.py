"""Readers of files, beside the standard library splitting a CSV of as many rows: entries a second, and the ratio.

Complete records with fingerprints, through the registry, as every caller reads them. Each figure is the best of three,
in processor time of this process; the control runs beside each, because a shared machine is not the same twice.

    python tests/benchmarks/bench_readers.py [--rows 100000]
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.formats.base import ReadOptions
from payrec.formats.registry import parse
from support.xlsx_files import DATE, Value, row, workbook

HEADINGS = ("Booking date", "Value date", "Amount", "Currency", "Name", "IBAN", "Remittance")


def texts(n: int) -> tuple[str, str, str, str]:
    """Return currency, name, account and remittance of a payment."""
    return "EUR", f"Customer {n % 5000} GmbH", f"DE{n % 97:02}1001001{n:011}", f"Invoice INV-{n:08} thanks"


def make_csv(rows: int) -> bytes:
    """Return a bank's CSV."""
    lines = [";".join(HEADINGS)]
    for n in range(rows):
        day = f"2026-{n % 9 + 1:02}-{n % 28 + 1:02}"
        lines.append(f"{day};{day};{n % 9000 + 10}.{n % 100:02};" + ";".join(texts(n)))
    return "\n".join(lines).encode()


def make_stripe(rows: int) -> bytes:
    """Return Stripe's payout reconciliation report."""
    heading = "automatic_payout_id,balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net"
    lines = [f"{heading},reporting_category,source_id,description"]
    for n in range(rows):
        gross, fee, day = n % 90_000 + 100, n % 1_000 // 10, f"2026-{n % 9 + 1:02}-{n % 28 + 1:02}"
        sums = ",".join(f"{minor // 100}.{minor % 100:02}" for minor in (gross, fee, gross - fee))
        lines.append(f"po_{n // 500},txn_{n:012},{day} 10:00:00,{day} 00:00:00,eur,{sums},charge,ch_{n:012},Order {n}")
    return "\n".join(lines).encode()


def make_bai2(rows: int) -> bytes:
    """Return one account; every third record has a value date, every fourth a continuation."""
    lines = ["01,A,B,260102,0754,1,,,2/", "02,A,B,1,260102,,EUR,2/", "03,123,EUR,,,,/"]
    for n in range(rows):
        funds = "V,260103," if n % 3 == 0 else "0"
        lines.append(f"16,165,{n + 1},{funds},B{n},C{n},{texts(n)[3]}/")
        if n % 4 == 0:
            lines.append(f"88,{texts(n)[1]}/")
    return "\n".join((*lines, "49,,/", "98,,,/", "99,,,/", "")).encode()


def make_ofx(rows: int) -> bytes:
    """Return one account, as SGML."""
    lines = ["OFXHEADER:100", "VERSION:102", "", "<OFX><STMTRS><CURDEF>EUR<BANKACCTFROM><ACCTID>1</BANKACCTFROM>"]
    for n in range(rows):
        _, name, _, remittance = texts(n)
        lines += ("<STMTTRN>", "<TRNTYPE>CREDIT", f"<DTPOSTED>202601{n % 28 + 1:02}120000")
        lines += (f"<TRNAMT>{n % 9000 + 10}.{n % 100:02}", f"<FITID>F{n}", f"<NAME>{name}", f"<MEMO>{remittance}")
        lines.append("</STMTTRN>")
    return "\n".join((*lines, "</STMTRS></OFX>", "")).encode()


def make_xlsx(rows: int) -> bytes:
    """Return the rows of the CSV as Excel writes them: dates and amounts as numbers, shared texts."""
    shared: dict[str, int] = {}

    def text(value: str) -> str:
        return f"<c r='HERE' t='s'><v>{shared.setdefault(value, len(shared))}</v></c>"

    lines = [row(1, *map(text, HEADINGS))]
    for n in range(rows):
        on: Value = (46_000 + n % 250, DATE)
        lines.append(row(n + 2, on, on, float(f"{n % 9000 + 10}.{n % 100:02}"), *map(text, texts(n))))
    return workbook("".join(lines), shared=[f"<t>{value}</t>" for value in shared])


def best(work: Callable[[], object]) -> float:
    """Return the least processor time of three runs."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def read(data: bytes) -> int:
    """Read a file to its end and return how many items that were; the clock stands: measuring memory is slow."""
    return sum(1 for _ in parse(io.BytesIO(data), name="x", options=ReadOptions(), monotonic=lambda: 0.0))


def main() -> None:
    """Print a line for each reader."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=100_000)
    rows = arguments.parse_args().rows
    lines = make_csv(rows).decode().splitlines()
    makers = {"csv": make_csv, "bai2": make_bai2, "ofx": make_ofx, "stripe": make_stripe, "xlsx": make_xlsx}
    for name, make in makers.items():
        data = make(rows)
        control = best(lambda: sum(1 for _ in csv.reader(lines, delimiter=";")))
        seconds = best(lambda data=data: read(data))  # type: ignore[misc]  # bound for this turn of the loop
        tracemalloc.start()
        read(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"{name:7} {rows / seconds:9,.0f} entries/s, {seconds / control:5.1f} times the control, "
            f"{len(data) / 2**20:.1f} MiB, peak {peak / 2**20:.1f} MiB"
        )


if __name__ == "__main__":
    main()
