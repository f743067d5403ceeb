"""Loaded rows are what a request would have stored, and whatever stands in a field, it is stored or left out."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.bench.load import COLUMNS, Rendered, Stamp, render_expected, render_incoming
from payrec.constants import AMOUNT_MINOR_MAX, METADATA_ENTRIES_MAX, REMITTANCE_LENGTH_MAX, TEXT_LENGTH_MAX
from payrec.domain.scope import TenantScope
from payrec.factory import TimeOrderedIds
from payrec.storage.rows import fetch_all
from support.service import Service, Tenant
from support.tenant_data import frame_of, load, scope_of_tenant

pytestmark = pytest.mark.anyio

OWN = {"id", "transaction_id", "created_at", "updated_at", "change_id", "statement_index"}
"""Columns that no two rows have in common, and the one that an upload alone has."""
STAMP = Stamp(at=datetime(2026, 1, 1, tzinfo=UTC), change_id=UUID(int=1))
IBAN = "DE89370400440532013000"

EXPECTED = {
    "id": 71,
    "amount_minor": -12_345,
    "currency": "EUR",
    "due_date": date(2026, 3, 1),
    "window_from": date(2026, 2, 1),
    "window_to": date(2026, 4, 1),
    "reference": "INV-2026-0071",
    "counterparty_name": "Müller & Söhne GmbH",
    "counterparty_iban": IBAN,
    "end_to_end_id": "E2E-71",
    "batch_id": "PO-7",
    "metadata": '{"order": "7", "tab": "a\\tb"}',
}
INCOMING = {
    "id": 72,
    "amount_minor": 12_345,
    "currency": "EUR",
    "booking_date": date(2026, 3, 2),
    "value_date": date(2026, 3, 3),
    "remittance": "Rechnung INV-2026-0071\nDanke",
    "counterparty_name": "MUELLER SOEHNE",
    "counterparty_iban": IBAN,
    "end_to_end_id": "NOTPROVIDED",
    "tx_code": "PMNT-RCDT-RRTN",
}


async def rows_of(service: Service, scope: TenantScope, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table without OWN."""
    async with service.factory.context.database.tenant(scope, readonly=True) as connection:
        found = await fetch_all(connection, f"SELECT * FROM {table} ORDER BY 1")  # noqa: S608 - our own names
    return [{k: v for k, v in row.items() if k not in OWN} for row in found]


async def test_a_row_is_stored_with_the_keys_that_a_request_would_get(
    service: Service, acme: Tenant, globex: Tenant
) -> None:
    """The requests are one tenant's, the loaded rows another's."""
    body = {
        "externalId": "71",
        "direction": "debit",
        "amountMinor": 12_345,
        "currency": "EUR",
        "dueDate": "2026-03-01",
        "expectedFrom": "2026-02-01",
        "expectedTo": "2026-04-01",
        "reference": "INV-2026-0071",
        "counterpartyName": "Müller & Söhne GmbH",
        "counterpartyAccount": IBAN,
        "endToEndId": "E2E-71",
        "groupKey": "PO-7",
        "metadata": {"order": "7", "tab": "a b"},
    }
    assert (await acme.post("/expected-transactions", body)).status_code == 201
    body = {
        "externalId": "72",
        "direction": "credit",
        "amountMinor": 12_345,
        "currency": "EUR",
        "bookingDate": "2026-03-02",
        "valueDate": "2026-03-03",
        "remittance": "Rechnung INV-2026-0071\nDanke",
        "counterpartyName": "MUELLER SOEHNE",
        "counterpartyAccount": IBAN,
        "bankTransactionCode": "PMNT-RCDT-RRTN",
    }
    assert (await acme.post("/incoming-transactions", body)).status_code == 201
    scope = await scope_of_tenant(service.factory, globex)
    await load(service.factory, scope, expected=[EXPECTED], incoming=[INCOMING])

    requested = await scope_of_tenant(service.factory, acme)
    for table in COLUMNS:
        loaded = await rows_of(service, scope, table)
        assert loaded == await rows_of(service, requested, table), table
        assert len(loaded) == (0 if table == "allocation" else 1)


HOSTILE = [
    "",
    None,
    "\x00",
    "a\x00b",
    "\\N",
    "\\",
    "a\tb\r\nc",
    "\x85\u2028",
    "é" * 3,
    "'; DROP TABLE match; --",
    "\x1f",
]
LONG = "Ä" * (REMITTANCE_LENGTH_MAX + 10)


async def test_whatever_stands_in_a_field_is_stored(service: Service, globex: Tenant) -> None:
    scope = await scope_of_tenant(service.factory, globex, "test")
    texts = [*HOSTILE, LONG, "{", '{"a": {"b": "\\ud800\\u0000"}}', "[1]", "[" * 5_000]
    expected = [
        {
            **dict.fromkeys(("reference", "counterparty_name", "counterparty_iban", "end_to_end_id", "batch_id"), text),
            "metadata": text,
            "amount_minor": 100,
            "currency": "EUR",
        }
        for text in texts
    ]
    incoming = [
        {
            **dict.fromkeys(("remittance", "counterparty_name", "counterparty_iban", "end_to_end_id", "tx_code"), text),
            "amount_minor": amount,
            "currency": "JPY",
            "booking_date": date(2026, 1, 1),
        }
        for text in texts
        for amount in (100, 0)
    ]
    await load(service.factory, scope, expected=expected, incoming=incoming)

    items = await rows_of(service, scope, "expected_transaction")
    lines = await rows_of(service, scope, "incoming_transaction")
    assert (len(items), len(lines)) == (len(texts), 2 * len(texts))
    assert max(len(row["reference"] or "") for row in items) == TEXT_LENGTH_MAX
    assert max(len(row["remittance"] or "") for row in lines) == REMITTANCE_LENGTH_MAX
    assert [row["reference"] for row in items[:4]] == [None, None, None, "ab"]
    assert {"a c", "\\N", "\\"} & {row["remittance"] for row in lines} == {"\\N", "\\"}
    assert "a b\nc" in {row["remittance"] for row in lines}
    # Nothing is open of a line without an amount.
    assert len(await rows_of(service, scope, "incoming_open")) == len(texts)
    ignored = await rows_of(service, scope, "allocation")
    assert {(row["side"], row["status"], row["reason_code"]) for row in ignored} == {(2, "ignored", "zero_amount")}
    assert len(ignored) == len(texts)


def rendered(folder: Path, side: str, *rows: dict[str, Any]) -> Rendered:
    if side == "expected":
        return render_expected(frame_of(rows, EXPECTED_SCHEMA), folder, ids=TimeOrderedIds(), stamp=STAMP)
    return render_incoming(frame_of(rows, INCOMING_SCHEMA), folder, ids=TimeOrderedIds(), stamp=STAMP)


@pytest.mark.parametrize(
    ("side", "change", "column"),
    [
        ("expected", {"amount_minor": 0}, "amount_minor"),
        ("expected", {"amount_minor": None}, "amount_minor"),
        ("expected", {"amount_minor": AMOUNT_MINOR_MAX + 1}, "amount_minor"),
        ("expected", {"amount_minor": -(2**63)}, "amount_minor"),
        ("expected", {"currency": "XXZ"}, "currency"),
        ("expected", {"currency": None}, "currency"),
        ("incoming", {"amount_minor": -AMOUNT_MINOR_MAX - 1}, "amount_minor"),
        ("incoming", {"currency": "eur"}, "currency"),
        ("incoming", {"booking_date": None, "value_date": None}, "booking_date"),
    ],
)
def test_what_no_request_could_store_is_left_out_and_counted(
    tmp_path: Path, side: str, change: dict[str, Any], column: str
) -> None:
    row = EXPECTED if side == "expected" else INCOMING
    found = rendered(tmp_path / "rows", side, {**row, **change}, row | {"id": 1})

    assert found.left_out == {column: 1}
    assert found.files[f"{side}_transaction"].read_text("utf-8").count("\n") == 1
    assert found.ids["id"].to_list() == [row["id"], 1]


def test_a_line_without_a_booking_day_is_booked_on_its_value_day_and_a_window_backwards_is_none(tmp_path: Path) -> None:
    line = rendered(tmp_path / "line", "incoming", {**INCOMING, "booking_date": None})
    item = rendered(tmp_path / "item", "expected", {**EXPECTED, "window_to": date(2026, 1, 1)})

    assert "\t2026-03-03\t2026-03-03\t" in line.files["incoming_transaction"].read_text("utf-8")
    assert "\t2026-03-01\t\\N\t\\N\t" in item.files["expected_transaction"].read_text("utf-8")


def test_metadata_is_bounded_as_a_request_s(tmp_path: Path) -> None:
    pairs = ", ".join(f'"k{n}": {n}' for n in range(METADATA_ENTRIES_MAX + 5))
    item = rendered(tmp_path / "item", "expected", {**EXPECTED, "metadata": f"{{{pairs}}}"})

    place = COLUMNS["expected_transaction"].index("metadata")
    stored = item.files["expected_transaction"].read_text("utf-8").rstrip("\n").split("\t")[place]
    assert stored.count(":") == METADATA_ENTRIES_MAX


@given(
    amount=st.integers(-(2**63), 2**63 - 1) | st.none(),
    currency=st.sampled_from(["EUR", "KWD", "", None, "€"]),
    text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40) | st.none(),
    day=st.dates() | st.none(),
)
def test_every_row_is_one_row_for_each_table_or_none(
    tmp_path_factory: pytest.TempPathFactory,
    amount: int | None,
    currency: str | None,
    text: str | None,
    day: date | None,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    common = {"amount_minor": amount, "currency": currency, "counterparty_name": text, "counterparty_iban": text}
    common["end_to_end_id"] = text
    for side, more in (
        ("expected", {"due_date": day, "window_from": day, "reference": text, "batch_id": text, "metadata": text}),
        ("incoming", {"booking_date": day, "remittance": text, "tx_code": text}),
    ):
        found = rendered(folder / side, side, {**common, **more})
        counts = {}
        for table, path in found.files.items():
            lines = path.read_text("utf-8").split("\n")
            counts[table] = len(lines) - 1
            assert all(line.count("\t") == len(COLUMNS[table]) - 1 for line in lines[:-1])
        stored = {f"{side}_transaction": 1, "allocation" if amount == 0 else f"{side}_open": 1}
        assert counts == ({} if found.left_out else stored)


def test_an_empty_side_is_no_rows(tmp_path: Path) -> None:
    found = rendered(tmp_path / "none", "incoming")

    assert (found.files, found.ids.height, dict(found.left_out)) == ({}, 0, {})
    assert found.ids.schema == {"uuid": pl.String, "id": pl.Int64}
