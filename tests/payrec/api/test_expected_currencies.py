"""An expected transaction in another currency: none of its amounts is taken for as many minor units of that."""

from __future__ import annotations

from typing import Any

import pytest

from support.service import Tenant
from support.wire import code, fields

pytestmark = pytest.mark.anyio

PATH = "/expected-transactions"
MONEY = {"direction": "credit", "amount": "100.00", "currency": "EUR"}
TERMS = [{"amountMinor": 9_800, "until": "2999-02-01"}]


async def made(tenant: Tenant, **given: Any) -> dict[str, Any]:
    answer = await tenant.post(PATH, {**MONEY, **given})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def patched(tenant: Tenant, transaction_id: str, patch: dict[str, Any]) -> Any:
    return await tenant.request("PATCH", f"{PATH}/{transaction_id}", json=patch)


@pytest.mark.parametrize(
    ("there", "restated", "wrong"),
    [
        ({"minAmountMinor": 9_000}, {"minAmountMinor": 50_000}, ("/minAmountMinor", "amount_required")),
        ({"maxAmountMinor": 10_100}, {"maxAmountMinor": None}, ("/maxAmountMinor", "amount_required")),
        ({"terms": TERMS}, {"terms": [{**TERMS[0], "amountMinor": 59_000}]}, ("/terms", "amount_required")),
        ({"openAmountMinor": 4_000}, None, ("/currency", "settled_before")),
    ],
)
async def test_another_currency_needs_every_amount_anew(
    acme: Tenant, globex: Tenant, there: dict[str, Any], restated: dict[str, Any] | None, wrong: tuple[str, str]
) -> None:
    before, other = await made(acme, **there), await made(globex, **there)
    patch = {"currency": "KWD", "amount": "60.000"}
    answer = await patched(acme, before["id"], patch)
    assert (answer.status_code, fields(answer)) == (422, {wrong})
    assert (await acme.get(f"{PATH}/{before['id']}")).json() == before
    same = await patched(acme, before["id"], {"currency": "EUR", "amount": "101.00"})
    assert same.status_code == 200
    if restated is not None:
        answer = await patched(acme, before["id"], {**patch, **restated})
        assert answer.status_code == 200, answer.text
        assert {name: answer.json()[name] for name in restated} == restated
    assert (await globex.get(f"{PATH}/{other['id']}")).json() == other


@pytest.mark.parametrize("amount", ["0.00", "10000000000000.00", "1000000000000000000000000000.00"])
async def test_an_amount_beyond_all_is_out_of_range_wherever_it_is_said(acme: Tenant, amount: str) -> None:
    before = await made(acme)
    wrong = {**MONEY, "amount": amount}
    answers = [await acme.post(PATH, wrong), await patched(acme, before["id"], {"amount": amount})]
    answers.append(await acme.post("/incoming-transactions", {**wrong, "bookingDate": "2026-03-02"}))
    for answer in answers[: 2 if amount == "0.00" else 3]:
        assert (answer.status_code, code(answer)) == (422, "amount_out_of_range")
        assert fields(answer) == {("/amount", "amount_out_of_range")}
