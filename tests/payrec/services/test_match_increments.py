"""Runs with few lines, which look up what these may reach, against runs that read everything: through the database."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from payrec.domain.matching import block
from payrec.domain.matching.engine import Proposals, propose
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.scope import TenantScope
from payrec.factory import Factory
from payrec.services import match_increments
from payrec.services.learning import LearningService
from payrec.services.match_columns import Snapshot
from payrec.services.match_increments import MatchIncrements
from payrec.services.matching import MatchingService
from payrec.services.matching_rules import tenant_rules
from payrec.services.returns import ReturnService
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

NEVER = 10**9
"""Items for each line from which on items are looked up."""

NAMES = ("Zangra Handel", "Quentlin Maschinenbau GmbH", "Obrist Feinmechanik", "Albrador Logistik", "Nord Handel")
SPELT = ("Znagra Handel", "Quentlin Maschinenba", "Obrist Feinmech", "ALBRADOR LOG.", "Handel Nord")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def many_items(world: World) -> None:
    """Store items, most of which have nothing to do with any line, and credit notes among them.

    What nothing else tells apart, their external ids do.
    """
    dice = random.Random(11)  # noqa: S311 - data, not a secret
    for at in range(40):
        payer = dice.randrange(len(NAMES))
        await world.expect(
            f"{dice.choice((100, 100, 100, 200, 300 + at))}.00",
            reference=f"INV-2026-{at:03}" if at % 3 else None,
            counterpartyName=NAMES[payer] if at % 4 else None,
            counterpartyAccount=f"DE{payer}" if at % 5 else None,
            groupKey=f"PO-2026-{at // 3}" if at % 7 == 0 else None,
            externalId=f"item-{at}",
        )
    for number in (2, 4, 35):
        await world.expect(
            "5.00",
            direction="debit",
            groupKey=f"INV-2026-{number:03}",
            counterpartyName=NAMES[number % len(NAMES)],
            externalId=f"note-{number}",
        )


async def few_lines(world: World) -> None:
    lines: list[dict[str, Any]] = [
        {"amount": "100.00", "remittance": "Invoice INV-2026-001"},
        {"amount": "200.00", "counterpartyName": SPELT[0]},
        {"amount": "100.00", "counterpartyAccount": "DE1"},
        {"amount": "400.00", "counterpartyName": NAMES[2]},
    ]
    for at, line in enumerate(lines):
        await world.receive(**line, externalId=f"line-{at}")


def snapshot_of_all(proposals: Proposals, snapshot: Snapshot) -> dict[str, Any]:
    """Return what a run would say, by ids; nothing of items of which there is nothing to say."""
    ids = {"expected": snapshot.expected_ids, "incoming": snapshot.incoming_ids}

    def named(frame: pl.DataFrame, *ends: tuple[str, str]) -> list[tuple[Any, ...]]:
        columns = {end: ids[side].gather(frame[end]) for end, side in ends}
        return frame.with_columns(**columns).rows()

    sides = (("expected", "expected"), ("incoming", "incoming"))
    contra = (("contra_expected", "expected"), ("contra_incoming", "incoming"))
    reasons = proposals.open_expected.filter(pl.col("reason") != 1)
    return {
        "matches": proposals.matches.rows(),
        "legs": named(proposals.legs, *sides, *contra),
        "adjustments": named(proposals.adjustments, *sides),
        "alternatives": named(proposals.alternatives, *sides),
        "items": sorted(map(repr, named(reasons, ("ordinal", "expected"), ("nearest", "incoming")))),
        "lines": sorted(map(repr, named(proposals.open_incoming, ("ordinal", "incoming"), ("nearest", "expected")))),
        "count": proposals.counts.proposed,
    }


def matching(factory: Factory) -> MatchingService:
    return MatchingService(
        work=factory.work,
        metrics=factory.context.metrics,
        returns=ReturnService(work=factory.work),
        learning=LearningService(work=factory.work),
    )


async def decided(world: World, params: dict[str, Any], *, few: bool) -> tuple[dict[str, Any], Snapshot]:
    factory = world.service.factory
    rules = (await tenant_rules(factory.context.database, world.scope.tenant_id)).matching
    found = await MatchIncrements(database=factory.context.database).read(world.scope, params, rules)
    assert (found is not None) == few
    snapshot, rates = found or await matching(factory)._read_whole(world.scope, params)
    proposals = propose(
        snapshot.expected,
        snapshot.incoming,
        rules,
        names=snapshot.names,
        rates=rates,
        advices=snapshot.advices,
        known=snapshot.known,
    )
    return snapshot_of_all(proposals, snapshot), snapshot


@pytest.mark.parametrize(
    "params", [{}, {"incomingFilter": {"amountMin": "200.00", "currency": "EUR"}}], ids=["every line", "some"]
)
async def test_what_is_looked_up_is_decided_as_among_everything(
    world: World, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await many_items(world)
    await world.run()
    await few_lines(world)

    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", NEVER)
    whole, everything = await decided(world, params, few=False)
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 4)
    part, reached = await decided(world, params, few=True)

    assert reached.expected.height < everything.expected.height == reached.items_open
    assert part["lines"] == whole["lines"]
    assert part["items"] == whole["items"]
    assert part == whole


async def test_runs_that_look_up_leave_what_runs_over_everything_leave(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    for ratio in (NEVER, 4):
        await world.clean()
        monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", ratio)
        await world.set(autoAccept=True, autoAcceptMinConfidence="high")
        await many_items(world)
        await world.run()
        await few_lines(world)
        runs = [await world.run(), await world.run()]
        matches = await world.matches()
        reasons = await world.sql(
            """
            SELECT w.side, w.reason, coalesce(e.amount_minor, i.amount_minor) AS amount_minor, e.reference
            FROM open_reason w LEFT JOIN expected_transaction e ON e.id = w.transaction_id
            LEFT JOIN incoming_transaction i ON i.id = w.transaction_id ORDER BY 1, 2, 3, 4
            """
        )
        said.append(
            (
                [run["counts"] for run in runs],
                sorted(
                    (m["status"], m["kind"], m["confidence"], m["score"], m["amountMinor"], str(m["evidence"]))
                    for m in matches
                ),
                reasons,
            )
        )
    whole, part = said
    assert whole[0][0]["expected"] == 43
    for left, looked_up in zip(whole, part, strict=True):
        assert looked_up == left


TERM = {"amountMinor": 98, "until": "2026-03-12"}
INVOICE = st.fixed_dictionaries(
    {
        "amountMinor": st.sampled_from([100, 200, 300]),
        "counterpartyName": st.sampled_from(NAMES[:2]),
        "terms": st.sampled_from([[], [TERM], [{**TERM, "until": "2026-03-11"}]]),
    }
)
PAID = {"whole": (0, 0), "a part": (1, 0), "held back": (2, 2), "too much": (-1, 0)}
"""By how much less is paid than an invoice is about, and how much of that is said to be held back."""
ADVISED = st.tuples(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([*PAID, "whole", "term"])), min_size=1, max_size=3),
    st.booleans(),  # the payment is named, and not its payer alone
    st.booleans(),  # it has come
)
PLAIN: dict[str, Any] = {"amountMinor": 100, "counterpartyName": NAMES[0], "terms": []}


@given(invoices=st.lists(INVOICE, min_size=4, max_size=4), advised=st.lists(ADVISED, min_size=1, max_size=3))
@example(
    invoices=[PLAIN, PLAIN, {**PLAIN, "terms": [TERM]}, {**PLAIN, "counterpartyName": NAMES[1]}],
    advised=[([(0, "whole"), (1, "held back")], True, True), ([(2, "term"), (3, "whole")], True, True)],
)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_advices_and_terms_are_decided_as_among_everything(
    world: World, invoices: list[dict[str, Any]], advised: list[Any]
) -> None:
    await world.clean()
    money = {"currency": "EUR", "direction": "credit"}
    items = [
        {**money, **invoice, "reference": f"INV-2026-{at}", "externalId": f"i{at}"}
        for at, invoice in enumerate(invoices)
    ]
    items += [{**money, "amountMinor": 5_000 + at, "reference": f"OTHER-{at}"} for at in range(60)]
    await bulk(world, "/expected-transactions", items)
    await world.run()
    # What a term asks for is paid without an advice as well.
    lines = [{"amountMinor": 98, "remittance": "INV-2026-3"}]
    for number, (listed, is_named, has_come) in enumerate(advised):
        told = []
        for at, how in listed:
            less, held = (2, 0) if how == "term" else PAID[how]
            paid = invoices[at]["amountMinor"] - less
            told.append({"reference": f"INV-2026-{at}", "amountMinor": paid, "deductionMinor": held})
        advice = {"currency": "EUR", "totalMinor": sum(line["amountMinor"] for line in told), "lines": told}
        whose = {"paymentReference": f"RUN-2026-{number}"} if is_named else {"counterpartyName": NAMES[0]}
        answer = await world.tenant.post("/remittance-advices", {**advice, **whose})
        assert answer.status_code == 201, answer.text
        if has_come:
            said = {"remittance": f"RUN-2026-{number}"} if is_named else {"counterpartyName": NAMES[0]}
            lines.append({"amountMinor": advice["totalMinor"], **said})
    rows = [{**money, "bookingDate": "2026-03-12", "externalId": f"l{at}", **line} for at, line in enumerate(lines)]
    await bulk(world, "/incoming-transactions", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", NEVER)
        whole, _ = await decided(world, {}, few=False)
        patch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 4)
        part, reached = await decided(world, {}, few=True)
    assert reached.expected.height <= len(invoices)
    assert part == whole


async def bulk(world: World, path: str, items: list[dict[str, Any]]) -> None:
    answer = await world.tenant.post(f"{path}/bulk", {"items": items})
    assert {result["status"] for result in answer.json()["results"]} == {201}, answer.text


@pytest.mark.parametrize("paid", [{"amount": "109.00", "currency": "USD"}, {"amount": "100.00", "currency": "EUR"}])
async def test_another_currency_is_decided_as_among_everything(
    world: World, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.rate("EUR", "USD", "1.09")
    await world.rate("EUR", "USD", "7.00", date="2026-01-10")
    await many_items(world)
    await world.expect("100.00", reference="INV-2026-777", externalId="abroad")
    await world.run()
    await world.receive(**paid, remittance="INV-2026-777", bookingDate="2026-03-12", externalId="line")

    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", NEVER)
    whole, _ = await decided(world, {}, few=False)
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 4)
    part, reached = await decided(world, {}, few=True)
    assert (part, part["count"]) == (whole, 1)
    assert reached.items_open is not None
    assert reached.expected.height < reached.items_open


async def test_what_is_quoted_first_is_decided_with_the_others_as_among_everything(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await many_items(world)
    # Who pays has an account by one name, and that by another.
    whose = [{"counterpartyName": "Alpha"}, {"counterpartyName": "Omega", "counterpartyAccount": "DE77"}]
    whose += [{"counterpartyName": "Omega"}, {"counterpartyName": "Alpha", "counterpartyAccount": "DE77"}]
    for at, (amount, payer) in enumerate(zip(("100.50", "201.75", "50.23", "777.77"), whose, strict=True)):
        await world.expect(amount, reference=f"RE-2026-014{at}", externalId=f"short-{at}", **payer)
    await world.run()
    await world.receive("352.48", remittance="RE-2026-0140/41/42", bookingDate="2026-03-12", externalId="line")

    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", NEVER)
    whole, _ = await decided(world, {}, few=False)
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 4)
    part, reached = await decided(world, {}, few=True)
    assert (part, part["count"], len(part["legs"])) == (whole, 1, 3)
    assert reached.items_open is not None
    assert reached.expected.height < reached.items_open


async def test_beyond_what_is_counted_it_is_told_about_how_many_items_are_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Autovacuum neither: it may have looked when there were fewer.
    await world.sql("ALTER TABLE expected_open SET (autovacuum_enabled = off)")
    await many_items(world)
    await world.run()
    await world.receive("7.00")
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 4)
    monkeypatch.setattr(match_increments, "ITEMS_COUNTED_MAX", 10)
    _, snapshot = await decided(world, {}, few=True)
    # Nobody has looked at the table yet, so all are counted; never are there told to be fewer than were seen.
    assert snapshot.items_open == 43


async def test_what_goes_beyond_a_budget_is_read_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(12):
        await world.expect(counterpartyAccount="DE1")
    await world.run()
    for _ in range(2):
        await world.receive(counterpartyAccount="DE1")
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 4)
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    read, looked = MatchingService._read_whole, []

    async def reading(self: MatchingService, scope: TenantScope, params: dict[str, Any]) -> Any:
        looked.append(await MatchIncrements(database=self._work.database).read(scope, params, MatchingRules()))
        return await read(self, scope, params)

    monkeypatch.setattr(MatchingService, "_read_whole", reading)
    await world.run()
    # What was looked up was too little, or nothing would have been read whole.
    assert [found is not None for found in looked] == [True]


async def test_many_items_of_which_nothing_was_said_are_read_with_all_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        await world.expect()
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 4)
    await decided(world, {}, few=False)
    await world.run()
    await world.expect()
    _, snapshot = await decided(world, {}, few=True)
    assert (snapshot.expected.height, snapshot.items_open) == (1, 5)


async def test_names_are_kept_while_an_item_has_them_and_for_no_other_tenant(world: World) -> None:
    expected = await world.expect(counterpartyName="Zoë Ångström AB")
    await world.receive("7.00", counterpartyName="Somebody else")
    await world.run()
    kept = "SELECT text, normal FROM counterparty_name"
    assert await world.sql(kept) == [{"text": "Zoë Ångström AB", "normal": "ANGSTROM ZO"}]
    await world.sql("DELETE FROM expected_open WHERE transaction_id = %s", expected)
    await world.expect(counterpartyName="Zoë")
    await world.run(dryRun=True)
    assert [row["text"] for row in await world.sql(kept)] == ["Zoë Ångström AB"]
    await world.run()
    assert [row["text"] for row in await world.sql(kept)] == ["Zoë"]
