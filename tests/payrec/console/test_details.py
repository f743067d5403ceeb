"""The pages of one line and of one item over HTTP: everything that is known of it, then and now, and for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from payrec.models.expected_transactions import ExpectedTransactionPublic
from payrec.models.incoming_transactions import IncomingTransactionPublic
from support.browser import ConsoleWorld
from support.service import Tenant

pytestmark = pytest.mark.anyio

PAGES = "/console/production"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e"
TEXTS = (
    "remittance",
    "structuredReference",
    "endToEndId",
    "bankReference",
    "counterpartyName",
    "counterpartyAccount",
    "ultimateCounterpartyName",
    "account",
    "groupKey",
    "mandateId",
    "instructionId",
    "transactionId",
    "uetr",
    "purposeCode",
)
"""Texts of a line, each of which is shown."""


async def stored(tenant: Tenant, path: str, **fields: Any) -> str:
    body = {"direction": "credit", "currency": "EUR", "amount": "100.00", **fields}
    if path == "/incoming-transactions":
        body |= {"bookingDate": "2026-03-12"}
    answer = await tenant.post(path, body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def seen(client: httpx2.AsyncClient, path: str, status: int = 200) -> str:
    answer = await client.get(f"{PAGES}/{path}")
    assert answer.status_code == status, answer.text
    return str(answer.text)


async def test_a_line_is_told_with_all_that_the_bank_said(console_world: ConsoleWorld) -> None:
    given = {name: f"told as {name}" for name in TEXTS}
    line = await stored(console_world.acme, "/incoming-transactions", **given, metadata={"shop": "north"})
    async with console_world.client(await console_world.person("viewer")) as client:
        text = await seen(client, f"incoming/{line}")
    for value in (*given.values(), "north", "100.00\u00a0EUR", line):
        assert value in text
    assert f"/console/production/unmatched/incoming/{line}/candidates" in text


async def test_an_item_is_told_with_all_that_was_stated(console_world: ConsoleWorld) -> None:
    names = (
        "reference",
        "description",
        "externalId",
        "endToEndId",
        "counterpartyName",
        "counterpartyAccount",
        "groupKey",
    )
    given = {name: f"stated as {name}" for name in names}
    terms = [{"amountMinor": 9_800, "until": "2026-03-01"}]
    item = await stored(
        console_world.acme, "/expected-transactions", **given, terms=terms, dueDate="2026-03-10", minAmountMinor=9_500
    )
    async with console_world.client() as client:
        text = await seen(client, f"expected/{item}")
    for value in (*given.values(), "98.00\u00a0EUR until", "95.00\u00a0EUR", "Overdue", item):
        assert value in text


async def test_what_became_of_both_is_told_with_its_match_and_its_history(console_world: ConsoleWorld) -> None:
    acme = console_world.acme
    line, item = await stored(acme, "/incoming-transactions"), await stored(acme, "/expected-transactions")
    fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 250, "currency": "EUR"}
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 9_750}]
    made = await acme.post("/matches", {"legs": legs, "adjustments": [fee], "reason": "a fee was kept"})
    match = made.json()["id"]
    async with console_world.client() as client:
        for kind, row, other in (("incoming", line, item), ("expected", item, line)):
            text = await seen(client, f"{kind}/{row}")
            assert f"/console/production/matches/{match}" in text
            assert other in text
            assert "97.50\u00a0EUR" in text
            assert "a fee was kept" in text
            # The fee is of the item alone.
            assert ("Fee" in text) is (kind == "expected")
        assert "expected_transaction.created" in await seen(client, f"expected/{item}")


async def test_it_is_shown_as_it_was_at_the_end_of_a_day(console_world: ConsoleWorld) -> None:
    item = await stored(console_world.acme, "/expected-transactions")
    now = datetime.now(UTC).date()
    async with console_world.client() as client:
        for on, status in ((now, 200), (now + timedelta(days=3), 200), (now - timedelta(days=1), 422)):
            await seen(client, f"expected/{item}?on={on}", status)
        await seen(client, f"expected/{item}?on=", 200)
        await seen(client, f"expected/{item}?on=yesterday", 422)


async def test_texts_of_strangers_stay_texts(console_world: ConsoleWorld) -> None:
    given = {name: HOSTILE for name in TEXTS if name != "groupKey"}
    line = await stored(console_world.acme, "/incoming-transactions", **given, metadata={HOSTILE[:60]: HOSTILE})
    item = await stored(
        console_world.acme, "/expected-transactions", reference=HOSTILE, description=HOSTILE, metadata={"k": HOSTILE}
    )
    await console_world.acme.post(f"/incoming-transactions/{line}/ignore", {"reason": HOSTILE})
    await console_world.acme.post(f"/expected-transactions/{item}/void", {"reason": HOSTILE})
    async with console_world.client() as client:
        for path in (f"incoming/{line}", f"expected/{item}"):
            text = await seen(client, path)
            assert text.count("alert(1)") > 3
            assert "<script>alert" not in text
            assert "<img src=x" not in text
            assert "\u202e" not in text


async def test_another_tenants_and_another_environments_are_not_there(console_world: ConsoleWorld) -> None:
    line = await stored(console_world.acme, "/incoming-transactions")
    item = await stored(console_world.acme, "/expected-transactions")
    paths = [f"incoming/{line}", f"expected/{item}", f"incoming/{item}", "incoming/x"]
    async with console_world.client(console_world.globex) as client:
        for path in paths:
            await seen(client, path, 404)
    async with console_world.client() as client:
        for path in paths[:2]:
            answer = await client.get(f"/console/test/{path}")
            assert answer.status_code == 404
        for path in paths[2:]:
            await seen(client, path, 404)


def test_no_field_of_either_is_forgotten() -> None:
    """A field that is added is shown as well, or is named here as one that others stand for."""
    stands_for_another = {"amount", "updated_at", "version", "data_source_id", "batch"}
    from importlib.resources import files  # noqa: PLC0415 - this test alone reads templates

    for name, model in (("incoming", IncomingTransactionPublic), ("expected", ExpectedTransactionPublic)):
        template = files("payrec.console").joinpath("templates", f"{name}.html").read_text(encoding="utf-8")
        by_macros = {"amount_minor", "currency", "metadata", "status", "reason_code"}
        missing = [f for f in model.model_fields if f"row.{f}" not in template]
        assert set(missing) - stands_for_another - by_macros == set()
