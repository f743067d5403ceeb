"""What a run has left to a person, the next one leaves to him as well: its own acceptances tell nothing new."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from payrec.models.tenants import Settings
from payrec.services import match_increments
from payrec.services.backtest_days import decided
from payrec.services.matching_rules import rules_of
from support.matching_world import World

pytestmark = pytest.mark.anyio

BOLT: Final = {"counterpartyName": "Bolt Works", "counterpartyAccount": "DE89370400440532013000"}
PAID, OPEN = ({"reference": f"INV-2026-004{number}", **BOLT} for number in (1, 2))
QUOTES: Final = {"remittance": PAID["reference"], **BOLT}
SILENT: Final = {"remittance": "thank you", **BOLT}
SENTENCE: Final = "; a run has settled another one that fitted as well."


@pytest.fixture
def world(accepting: World) -> World:
    return accepting


@pytest.fixture(params=["all lines", "few lines"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs read everything, or only what their lines reach."""
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 0.1 if request.param == "few lines" else 10**9)


async def match_of(world: World, line: str) -> dict[str, Any]:
    """Return the match of a payment that counts."""
    [found] = [
        match
        for match in await world.matches()
        if match["status"] in {"proposed", "accepted"}
        and any(leg["incomingTransactionId"] == line for leg in match["legs"])
    ]
    return found


async def left_to_a_person(world: World, line: str) -> None:
    """See to it that three runs propose what the payment pays, and that the later ones say what has become of it."""
    for _ in range(3):
        await world.run()
        match = await match_of(world, line)
        assert (match["status"], match["confidence"]) == ("proposed", "medium")
        assert match["uniqueness"]["status"] == "contested"
    [said] = [told for told in match["evidence"] if told["feature"] == "line"]
    assert (said["level"], said["weight"]) == ("rival_settled", 0)
    assert match["explanation"].endswith(SENTENCE)


@pytest.mark.usefixtures("few")
async def test_of_two_items_the_one_that_is_left_is_no_surer_than_before(world: World) -> None:
    await world.expect(**PAID)
    await world.expect(**OPEN)
    await world.receive(**QUOTES)
    await left_to_a_person(world, await world.receive(**SILENT))
    told = sorted(match["status"] for match in await world.matches())
    assert told == ["accepted", "proposed", "superseded"]


@pytest.mark.usefixtures("few")
async def test_of_two_payments_the_one_that_is_left_is_no_surer_than_before(world: World) -> None:
    await world.expect(reference="INV-2026-0041", endToEndId="E2E-2026-0041")
    await world.expect(**OPEN)
    await world.receive(endToEndId="E2E-2026-0041", **BOLT)
    await left_to_a_person(world, await world.receive(**SILENT))


async def test_who_pays_nearly_may_have_meant_what_had_just_his_amount(world: World) -> None:
    await world.set(amountToleranceMinor=100)
    await world.expect("99.50", **PAID)
    await world.expect(**OPEN)
    await world.receive("99.50", **QUOTES)
    await left_to_a_person(world, await world.receive("99.50", remittance=OPEN["reference"], **BOLT))


@pytest.mark.usefixtures("few")
async def test_a_payment_of_another_name_that_quoted_a_part_was_a_rival_as_well(world: World) -> None:
    await world.expect(reference=PAID["reference"], counterpartyName="Bolt Works")
    await world.expect(reference=OPEN["reference"], counterpartyName="Bolt Works Berlin")
    await world.receive(remittance=PAID["reference"][:-1], counterpartyName="Bolt Works")
    await left_to_a_person(world, await world.receive(remittance="thank you", counterpartyName="Bolt Works Berlin"))


@pytest.mark.usefixtures("few")
async def test_a_number_may_be_mistaken_also_when_what_was_meant_is_settled(world: World) -> None:
    await world.expect(reference=OPEN["reference"], counterpartyName="Ada Lovelace")
    await world.expect(**PAID)
    await world.receive(**QUOTES)
    await left_to_a_person(world, await world.receive(remittance=OPEN["reference"], **BOLT))


async def test_what_changes_nothing_of_the_evidence_makes_nobody_surer(world: World) -> None:
    item = await world.expect(reference=OPEN["reference"], counterpartyName="Ada Lovelace")
    await world.expect(**PAID)
    await world.receive(**QUOTES)
    line = await world.receive(remittance=OPEN["reference"], **BOLT)
    await world.run()
    answer = await world.tenant.request("PATCH", f"/expected-transactions/{item}", json={"dueDate": "2026-03-11"})
    assert answer.status_code == 200, answer.text
    await left_to_a_person(world, line)


async def test_what_a_person_has_changed_since_is_looked_at_as_it_is(world: World) -> None:
    ada = {"counterpartyName": "Ada Lovelace"}
    item = await world.expect(reference=OPEN["reference"], **ada)
    await world.expect(**PAID)
    await world.receive(**QUOTES)
    line = await world.receive(remittance=OPEN["reference"], **BOLT)
    await world.run()
    assert (await match_of(world, line))["status"] == "proposed"
    answer = await world.tenant.request("PATCH", f"/expected-transactions/{item}", json=BOLT)
    assert answer.status_code == 200, answer.text
    await world.run()
    assert (await match_of(world, line))["status"] == "accepted"


async def test_a_set_that_nobody_named_is_no_surer_when_the_other_items_of_its_payer_are_settled(world: World) -> None:
    await world.expect("1000.07", **PAID)
    await world.expect("1000.07", **OPEN)
    await world.receive("1000.07", **QUOTES)
    parts = [await world.receive(f"500.0{cents}", **SILENT, bookingDate="2026-03-10") for cents in (3, 4)]
    for status in ("unique", "unbounded"):
        await world.run()
        found = [await match_of(world, part) for part in parts]
        assert {(match["status"], match["uniqueness"]["status"]) for match in found} == {("proposed", status)}


@pytest.mark.usefixtures("few")
async def test_what_comes_when_the_other_one_is_settled_has_no_rival(world: World) -> None:
    await world.expect(**PAID)
    await world.expect(**OPEN)
    await world.receive(**QUOTES)
    await world.run()
    line = await world.receive(**SILENT)
    await world.run()
    assert (await match_of(world, line))["status"] == "accepted"


async def test_an_item_that_comes_when_the_other_one_is_settled_has_no_rival(world: World) -> None:
    await world.expect(**PAID)
    await world.receive(**QUOTES)
    line = await world.receive(**SILENT)
    await world.run()
    await world.expect(**OPEN)
    await world.run()
    assert (await match_of(world, line))["status"] == "accepted"


async def test_what_was_settled_before_either_came_is_no_rival(world: World) -> None:
    await world.set(autoAcceptMinConfidence="exact")
    cyd, ada = {"counterpartyName": "Cyd Handel"}, {"counterpartyName": "Ada Lovelace"}
    await world.expect(reference="INV-2026-0050", **cyd)
    lines = [await world.receive(**cyd)]
    for number in (1, 2):
        # What is accepted first is of the counterparty, and what is accepted then has seen everything.
        of_whom = BOLT if number == 1 else ada
        await world.expect(reference=f"INV-2026-006{number}", **of_whom)
        await world.receive(remittance=f"INV-2026-006{number}", **of_whom)
        if number == 2:
            await world.expect(**OPEN)
            lines.append(await world.receive(**SILENT))
        assert (await world.run())["counts"]["autoAccepted"] == 1
    await world.set(autoAcceptMinConfidence="high")
    await world.run()
    assert [(await match_of(world, line))["status"] for line in lines] == ["accepted", "accepted"]


@pytest.mark.parametrize("other", ["counterparty", "amount", "currency", "direction"])
async def test_what_was_settled_of_others_is_no_rival(world: World, other: str) -> None:
    differs: dict[str, Any] = {
        "counterparty": {"counterpartyName": "Ada Lovelace", "counterpartyAccount": "DE02120300000000202051"},
        "amount": {"amount": "101.00"},
        "currency": {"currency": "USD"},
        "direction": {"direction": "debit"},
    }[other]
    await world.set(autoAcceptMinConfidence="exact")
    await world.expect(**PAID | differs)
    await world.expect(**OPEN)
    await world.receive(**QUOTES | differs)
    line = await world.receive(**SILENT)
    await world.run()
    assert (await match_of(world, line))["status"] == "proposed"
    await world.set(autoAcceptMinConfidence="high")
    await world.run()
    assert [match["status"] for match in await world.matches() if match["status"] != "superseded"] == ["accepted"] * 2


OUT: Final = {"direction": "debit"}


async def money_left_to_a_person(world: World, line: str, levels: set[str]) -> None:
    """See to it that runs accept something, and leave the money to which this line belongs to a person each time."""
    assert (await world.run())["counts"]["autoAccepted"] == 1
    for _ in range(2):
        assert (await world.run())["counts"]["autoAccepted"] == 0
        match = await match_of(world, line)
        assert (match["status"], match["confidence"]) == ("proposed", "medium")
        assert {told["level"] for told in match["evidence"]} >= levels


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("of_whom", [{}, {"counterpartyName": "Ada Lovelace"}], ids=["nobody", "another name"])
async def test_of_two_own_transfers_the_one_that_is_left_is_no_surer_than_before(
    world: World, of_whom: dict[str, str]
) -> None:
    await world.receive(account="GIRO", endToEndId="E2E-2026-0041", **OUT, **of_whom)
    await world.receive(account="SAVINGS", endToEndId="E2E-2026-0041", **of_whom)
    await world.receive(account="GIRO", **OUT)
    line = await world.receive(account="TAGESGELD", counterpartyAccount="GIRO")
    await money_left_to_a_person(world, line, {"equal"})
    assert (await match_of(world, line))["kind"] == "transfer"


async def test_what_a_third_payment_quotes_proves_no_refund_when_that_one_is_settled(world: World) -> None:
    await world.expect("20.00", **PAID)
    await world.receive("20.00", remittance=f"ORDER-2026-31 {PAID['reference']}", **BOLT)
    line = await world.receive("75.00", remittance="ORDER-2026-31", **BOLT)
    await world.receive("75.00", remittance="ORDER-2026-31", bookingDate="2026-03-20", **OUT, **BOLT)
    await money_left_to_a_person(world, line, {"full"})
    assert (await match_of(world, line))["kind"] == "refund"


async def test_a_transfer_that_no_run_has_seen_whole_has_no_rival(world: World) -> None:
    await world.expect(**PAID)
    await world.receive(**QUOTES, account="GIRO")
    line = await world.receive(account="SAVINGS", counterpartyAccount="GIRO")
    await world.run()
    await world.receive(account="GIRO", **OUT)
    await world.run()
    match = await match_of(world, line)
    assert (match["status"], match["kind"]) == ("accepted", "transfer")


async def test_what_a_person_has_decided_makes_the_rest_surer(world: World) -> None:
    await world.expect(**PAID)
    await world.expect(**OPEN)
    lines = [await world.receive(**SILENT, bookingDate=f"2026-03-1{day}") for day in (1, 2)]
    await world.run()
    await world.run()
    first = await match_of(world, lines[0])
    assert first["status"] == (await match_of(world, lines[1]))["status"] == "proposed"
    assert (await world.accept(first)).status_code == 200
    await world.run()
    assert (await match_of(world, lines[1]))["status"] == "accepted"


async def test_what_waits_for_a_second_person_is_not_decided_by_one(world: World) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    limit = {"approval": {"secondPersonAboveMinor": 5_000, "currency": "EUR"}}
    answer = await world.tenant.request("PATCH", path, json=limit)
    assert answer.status_code == 200, answer.text
    await world.expect(**PAID)
    await world.expect(**OPEN)
    waiting = await world.receive(**QUOTES)
    line = await world.receive(**SILENT)
    for _ in range(2):
        await world.run()
    [held] = [m for m in await world.matches() if m["status"] == "pending_approval"]
    assert [leg["incomingTransactionId"] for leg in held["legs"]] == [waiting]
    assert (await match_of(world, line))["status"] == "proposed"


async def nothing_is_accepted_of_what_is_left(world: World) -> None:
    """See to it that neither the next run nor a day of a backtest which begins with this accepts anything."""
    sure = Settings.model_validate({"matching": {"autoAccept": True, "autoAcceptMinConfidence": "high"}})
    later = datetime.now(UTC).date() + timedelta(days=2)
    day = await decided(world.service.factory.context.database, world.scope, later, rules_of(sure))
    assert not any(decision.auto for decision in day.decisions.values())
    assert (await world.run())["counts"]["autoAccepted"] == 0


payers = st.sampled_from([BOLT, {"counterpartyName": "Bolt Works Berlin"}, {"counterpartyName": "Ada Lovelace"}, {}])
amounts = st.sampled_from(["100.00", "200.00"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(st.tuples(payers, amounts), min_size=1, max_size=5),
    lines=st.lists(st.tuples(payers, amounts, st.integers(0, 7)), min_size=1, max_size=5),
)
async def test_a_run_over_what_a_run_has_left_accepts_nothing(
    world: World, items: list[tuple[dict[str, str], str]], lines: list[tuple[dict[str, str], str, int]]
) -> None:
    await world.clean()
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    for at, (payer, amount) in enumerate(items):
        await world.expect(amount, reference=f"INV-2026-004{at}", **payer)
    for payer, amount, quoted in lines:
        await world.receive(amount, remittance=f"INV-2026-004{quoted}" if quoted < len(items) else "thanks", **payer)
    await world.run()
    await nothing_is_accepted_of_what_is_left(world)


own_accounts = st.sampled_from(["GIRO", "SAVINGS", "DEPOT"])
moves = st.fixed_dictionaries(
    {"account": own_accounts, "direction": st.sampled_from(["credit", "debit"])},
    optional={
        "counterpartyAccount": own_accounts,
        "counterpartyName": st.sampled_from(["Bolt Works", "Ada Lovelace"]),
        "endToEndId": st.sampled_from(["E2E-2026-0041", "E2E-2026-0042"]),
        "remittance": st.sampled_from(["ORDER-2026-31", "INV-2026-0040", "INV-2026-0041"]),
    },
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(payers, max_size=2), lines=st.lists(moves, min_size=3, max_size=6))
async def test_a_run_over_the_own_money_that_a_run_has_left_accepts_nothing(
    world: World, items: list[dict[str, str]], lines: list[dict[str, str]]
) -> None:
    await world.clean()
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    for at, payer in enumerate(items):
        await world.expect(reference=f"INV-2026-004{at}", **payer)
    for line in lines:
        await world.receive(**line)
    await world.run()
    await nothing_is_accepted_of_what_is_left(world)
