"""References that are issued: each once, and a payment that quotes one is known by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from payrec.domain.issued_references import is_short_reference, issued_reference
from payrec.domain.references import is_creditor_reference
from payrec.services import expected_rows
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import code, count, fields, rows

pytestmark = pytest.mark.anyio

PATH = "/expected-transactions"
MONEY = {"direction": "credit", "amount": "100.00", "currency": "EUR"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


@pytest.mark.parametrize(("kind", "is_right"), [("iso11649", is_creditor_reference), ("short", is_short_reference)])
async def test_a_reference_is_issued_and_shown(acme: Tenant, globex: Tenant, kind: str, is_right: Any) -> None:
    answer = await acme.post(PATH, {**MONEY, "issueReference": kind})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert is_right(body["reference"])
    assert "issueReference" not in body
    assert (await acme.get(f"{PATH}/{body['id']}")).json() == body
    found = (await acme.get(PATH, params={"reference": body["reference"]})).json()["data"]
    assert [row["id"] for row in found] == [body["id"]]
    assert (await globex.get(PATH, params={"reference": body["reference"]})).json()["data"] == []


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"issueReference": "iso11649", "reference": "R"}, ("/issueReference", "reference_once")),
        ({"issueReference": "iban"}, ("/issueReference", "literal_error")),
        ({"openAmountMinor": 0}, ("/openAmountMinor", "greater_than_equal")),
        ({"openAmountMinor": 10_001}, ("/openAmountMinor", "open_exceeds_amount")),
    ],
)
async def test_what_cannot_be_issued_is_named(acme: Tenant, given: dict[str, Any], wrong: tuple[str, str]) -> None:
    answer = await acme.post(PATH, {**MONEY, **given})
    assert (answer.status_code, fields(answer)) == (422, {wrong})


async def test_one_that_somebody_has_is_made_anew(
    service: Service, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def clumsy(kind: Any, transaction_id: UUID) -> str:
        drawn.append("RF65" + "0" * 16 if len(drawn) < 4 else issued_reference(kind, transaction_id))
        return drawn[-1]

    monkeypatch.setattr(expected_rows, "issued_reference", clumsy)
    first = await acme.post(PATH, {**MONEY, "issueReference": "iso11649"})
    second = await acme.post(PATH, {**MONEY, "issueReference": "iso11649"})
    assert (first.status_code, second.status_code) == (201, 201)
    assert len(drawn) == 5
    assert first.json()["reference"] != second.json()["reference"]
    # In another environment it is another one's.
    drawn.clear()
    assert (await acme.post(PATH, {**MONEY, "issueReference": "iso11649"}, "test")).status_code == 201
    before = await count(service, acme, "expected_transaction")
    drawn.clear()
    monkeypatch.setattr(expected_rows, "issued_reference", lambda *_: "RF65" + "0" * 16)
    answer = await acme.post(PATH, {**MONEY, "issueReference": "iso11649"})
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    assert await count(service, acme, "expected_transaction") == before


async def test_one_that_was_given_by_hand_may_be_there_twice(acme: Tenant) -> None:
    issued = (await acme.post(PATH, {**MONEY, "issueReference": "short"})).json()["reference"]
    assert (await acme.post(PATH, {**MONEY, "reference": issued})).status_code == 201


async def test_thousands_are_issued_at_once(service: Service, acme: Tenant) -> None:
    items = [{**MONEY, "issueReference": ("iso11649", "short")[n % 2]} for n in range(2_000)]
    results = (await acme.post(f"{PATH}/bulk", {"items": items})).json()["results"]
    assert {result["status"] for result in results} == {201}
    stored = await rows(service, acme, "SELECT reference FROM expected_transaction WHERE reference_issued")
    references = [row["reference"] for row in stored]
    assert len(set(references)) == len(references) >= 2_000


def grouped(reference: str, size: int, mark: str) -> str:
    return mark.join(reference[at : at + size] for at in range(0, len(reference), size))


@pytest.mark.parametrize(
    ("kind", "quoted"),
    [
        ("iso11649", lambda r: {"remittance": f"Invoice, {grouped(r, 4, ' ')} thank you"}),
        ("iso11649", lambda r: {"remittance": grouped(r, 4, " ").lower()}),
        ("iso11649", lambda r: {"structuredReference": r}),
        ("iso11649", lambda r: {"structuredReference": grouped(r, 4, " ")}),
        ("short", lambda r: {"remittance": f"ref {r}"}),
        ("short", lambda r: {"remittance": f"ref: {grouped(r, 5, '-').lower()}, 3 March"}),
        ("short", lambda r: {"remittance": grouped(r, 5, " ")}),
        ("short", lambda r: {"endToEndId": r}),
    ],
)
async def test_a_payment_that_quotes_one_matches_with_proof(world: World, kind: str, quoted: Any) -> None:
    item = await world.expect(issueReference=kind, dueDate=None)
    # Of the same amount and day, so that nothing else tells them apart.
    for _ in range(3):
        await world.expect(issueReference=kind, dueDate=None)
    reference = (await world.expected(item))["reference"]
    line = await world.receive(**quoted(reference))
    await world.set(autoAccept=True, autoAcceptMinConfidence="exact")
    await world.run()
    [match] = [m for m in await world.matches() if m["status"] in {"proposed", "accepted"}]
    assert (match["confidence"], match["status"]) == ("exact", "accepted")
    assert [(leg["expectedTransactionId"], leg["incomingTransactionId"]) for leg in match["legs"]] == [(item, line)]
    assert (await world.expected(item))["status"] == "matched"


@pytest.mark.parametrize("kind", ["iso11649", "short"])
async def test_one_that_is_mistyped_proves_nothing(world: World, kind: str) -> None:
    item = await world.expect(issueReference=kind, dueDate=None)
    for _ in range(3):
        await world.expect(issueReference=kind, dueDate=None)
    reference = (await world.expected(item))["reference"]
    wrong = reference[:7] + ("2" if reference[7] != "2" else "3") + reference[8:]
    await world.receive(remittance=f"ref {wrong}")
    await world.set(autoAccept=True, autoAcceptMinConfidence="exact")
    await world.run()
    assert {(m["confidence"], m["status"]) for m in await world.matches()} & {("exact", "accepted")} == set()
    assert all(m["confidence"] != "exact" for m in await world.matches())


async def test_what_was_settled_before_is_not_expected_again(world: World) -> None:
    item = await world.expect(amount="100.00", openAmountMinor=4_000, reference="INV-2026-0009")
    found = await world.expected(item)
    assert (found["settledBeforeMinor"], found["matchedAmountMinor"], found["openAmountMinor"]) == (6_000, 0, 4_000)
    assert found["status"] == "open"
    await world.receive(amount="40.00", remittance="INV-2026-0009")
    await world.run()
    match = await world.proposal()
    assert (match["confidence"], match["amountMinor"]) == ("exact", 4_000)
    assert (await world.accept(match)).status_code == 200
    found = await world.expected(item)
    assert (found["status"], found["matchedAmountMinor"], found["openAmountMinor"]) == ("matched", 4_000, 0)
