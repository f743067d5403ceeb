"""The main job over HTTP alone: expected, incoming, matched, accepted."""

from __future__ import annotations

import pytest

from support.service import Tenant

pytestmark = pytest.mark.anyio


async def test_an_invoice_is_paid_and_the_match_explains_itself(acme: Tenant) -> None:
    expected = await acme.post(
        "/expected-transactions",
        {"direction": "credit", "amount": "123.45", "currency": "EUR", "reference": "INV-2024-17"},
    )
    assert expected.status_code == 201
    incoming = await acme.post(
        "/incoming-transactions",
        {
            "direction": "credit",
            "amount": "123.45",
            "currency": "EUR",
            "bookingDate": "2024-03-04",
            "remittance": "Rechnung INV 2024 17 vielen Dank",
        },
    )
    assert incoming.status_code == 201

    run = await acme.post("/matches/match", {})
    assert run.status_code == 200, run.text
    assert run.json()["counts"]["proposed"] == 1

    [match] = (await acme.get("/matches", params={"status": "proposed"})).json()["data"]
    assert match["confidence"] == "exact"
    assert match["legs"][0]["expectedTransactionId"] == expected.json()["id"]
    assert "INV-2024-17" in match["explanation"]

    accepted = await acme.post(f"/matches/{match['id']}/accept")
    assert accepted.status_code == 200
    again = await acme.post(f"/matches/{match['id']}/accept")
    assert again.json() == accepted.json()

    paid = (await acme.get(expected.headers["Location"])).json()
    assert (paid["status"], paid["openAmountMinor"]) == ("matched", 0)
