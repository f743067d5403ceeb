"""Decisions teach the tenant environment that made them: weights, a threshold, aliases; shown, reset and forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.services.match_verification import MatchVerificationService
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

COUNT = 60
CALIBRATION, ALIASES = "/matching/calibration", "/matching/aliases"
CERTIFIED = """
    INSERT INTO calibration (version, created_at, decisions, reviewed, bound_ppm, threshold_milli, corrections, curve)
    VALUES (4, now(), 3000, 3000, 999099, -9000, '{"name": [0, 0, 0, 300]}', '[[-9000, 1000000]]')
"""


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("payrec.services.learning", "payrec.domain.matching.learning"):
        monkeypatch.setattr(f"{place}.DECISIONS_MIN", COUNT)


async def decide(world: World, count: int = COUNT, *, actor: str = "user:ada") -> None:
    """Have so many proposals, and somebody who takes all of them but those of some amounts."""
    items = [
        {"direction": "credit", "currency": "EUR", "dueDate": "2026-03-10", "amountMinor": 1_000 + at,
         "counterpartyAccount": f"ACCOUNT{at}"}
        for at in range(count)
    ]  # fmt: skip
    for item in items:
        # In one environment alone: nothing of it may be known in the other.
        assert (await world.tenant.post("/expected-transactions", item)).status_code == 201
    lines = [
        {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "amountMinor": item["amountMinor"],
         "counterpartyAccount": item["counterpartyAccount"], "externalId": f"line-{at}"}
        for at, item in enumerate(items)
    ]  # fmt: skip
    assert (await world.tenant.post("/incoming-transactions/upload", lines)).status_code == 201
    run = await world.run()
    assert run["counts"]["proposed"] == count
    await world.sql(
        "UPDATE match SET decided_by = %s, decided_at = now(),"
        " status = CASE WHEN amount_minor %% 10 = 0 THEN 'rejected' ELSE 'accepted' END RETURNING id",
        actor,
    )


async def shown(tenant: Tenant) -> dict[str, Any]:
    answer = await tenant.get(CALIBRATION)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_run_learns_of_decisions_and_of_no_other_tenant_s(world: World) -> None:
    nothing = await shown(world.tenant)
    assert (nothing["version"], nothing["explanation"][:22]) == (0, "Nothing is learned yet")
    await decide(world)
    await world.run(dryRun=True)
    assert (await shown(world.tenant))["version"] == 0
    run = await world.run()
    found = await shown(world.tenant)
    assert (found["version"], found["decisions"], found["threshold"]) == (1, COUNT, None)
    assert (found["reviewed"], found["wrong"]) == (COUNT, COUNT // 10)
    assert found["precisionRequired"] == 0.999
    assert 0.7 < found["precisionBound"] < 0.95
    [account] = [c for c in found["corrections"] if c["feature"] == "account"]
    assert account["correction"] < 0
    assert (account["decisions"], account["right"]) == (COUNT, COUNT - COUNT // 10)
    assert account["explanation"].startswith(f"{COUNT - COUNT // 10} of {COUNT} decided proposals with account equal")
    assert "no score is certified" in found["explanation"]
    assert run["engineVersion"].endswith("+1")
    assert (await shown(world.bystander))["version"] == 0
    # Not again until there are a tenth more.
    await world.run()
    assert (await shown(world.tenant))["version"] == 1


async def test_what_a_key_accepts_vouches_for_nothing_and_what_it_rejects_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key may accept whatever is proposed without anybody having looked: that certified a score."""
    await decide(world, actor="api_key:0123456789abcdef")
    await world.run()
    assert (await shown(world.tenant))["version"] == 0
    for place in ("payrec.services.learning", "payrec.domain.matching.learning"):
        monkeypatch.setattr(f"{place}.DECISIONS_MIN", COUNT // 10)
    await world.run()
    found = await shown(world.tenant)
    assert (found["decisions"], found["reviewed"], found["wrong"]) == (COUNT // 10, COUNT // 10, COUNT // 10)


async def test_a_reset_forgets_the_decisions_so_far(world: World) -> None:
    assert (await world.tenant.request("DELETE", CALIBRATION)).status_code == 204
    assert (await shown(world.tenant))["version"] == 0
    await decide(world)
    await world.run()
    assert (await world.tenant.request("DELETE", CALIBRATION)).status_code == 204
    found = await shown(world.tenant)
    assert (found["version"], found["corrections"], found["decisions"]) == (2, [], 0)
    assert found["forgottenUntil"] is not None
    assert found["explanation"].startswith("Everything learned was forgotten")
    assert not (await world.run())["engineVersion"].endswith("+2")
    assert (await shown(world.tenant))["version"] == 2
    audit = await world.sql("SELECT action FROM audit_record WHERE action LIKE 'calibration.%' ORDER BY action")
    assert [row["action"] for row in audit] == ["calibration.learned", "calibration.reset"]


async def test_a_reset_forgets_decisions_of_which_nothing_was_learned_yet(world: World) -> None:
    """They were learned of after all: there was no version from which on others would have counted."""
    await decide(world)
    assert (await world.tenant.request("DELETE", CALIBRATION)).status_code == 204
    await world.run()
    found = await shown(world.tenant)
    assert (found["version"], found["decisions"], found["corrections"]) == (1, 0, [])
    assert found["forgottenUntil"] is not None
    [reset] = await world.sql("SELECT before, after FROM audit_record WHERE action = 'calibration.reset'")
    assert reset == {"before": None, "after": {"version": 1}}


@pytest.mark.parametrize("found", ["reversed", "rejected"])
async def test_what_was_wrong_after_all_withdraws_the_certificate(
    world: World, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """It held until there were a tenth more decisions: what is taken back adds none, and it accepted ever more."""
    for least in ("PRECISION_PPM_MIN", "RESTING_PPM_MIN"):
        monkeypatch.setattr(f"payrec.domain.matching.certificate.{least}", 950_000)
    await decide(world)
    await world.sql("UPDATE match SET status = 'accepted' RETURNING id")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    before = await shown(world.tenant)
    assert (before["version"], before["reviewed"], before["wrong"]) == (1, COUNT, 0)
    assert before["threshold"] is not None
    # Nothing new is known by one that was right.
    await world.sql("UPDATE match SET decided_at = now() RETURNING id")
    await world.run()
    assert (await shown(world.tenant))["version"] == 1

    [one, *_] = await world.matches(limit=1)
    await world.sql("UPDATE match SET status = %s, decided_at = now() WHERE id = %s RETURNING id", found, one["id"])
    for _ in range(2):
        # Once is enough.
        await world.run()
        after = await shown(world.tenant)
        assert (after["version"], after["reviewed"], after["wrong"], after["threshold"]) == (2, COUNT, 1, None)
    assert "no score is certified" in after["explanation"]


async def test_a_certified_score_is_accepted_and_can_be_computed_again(world: World) -> None:
    await world.expect("321.09", counterpartyName="Albrador Logistik GmbH")
    await world.receive("321.09", counterpartyName="ALBRADOR LOG.")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.sql(f"{CERTIFIED} RETURNING version")
    await world.run()
    [match] = await world.matches()
    assert (match["status"], match["confidence"], match["sampled"]) == ("accepted", "high", False)
    [name] = [found for found in match["evidence"] if found["feature"] == "name"]
    assert name["weight"] == 2.3
    assert match["createdBy"].endswith("+4")
    verified = await MatchVerificationService(database=world.service.factory.context.database).verify(
        world.scope, match["id"]
    )
    assert [check for check in verified.checks if not check.holds] == []


async def test_what_is_drawn_for_a_review_is_told_without_what_the_engine_thinks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.domain.matching.certificate.SAMPLED_ONE_IN", 1)
    item = await world.expect("321.09", counterpartyName="Albrador Logistik GmbH")
    line = await world.receive("321.09", counterpartyName="ALBRADOR LOG.")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.sql(f"{CERTIFIED} RETURNING version")
    [tried] = (await world.run(dryRun=True))["proposals"]
    assert (tried["score"], tried["confidence"], tried["autoAccept"]) == (None, None, False)
    run = await world.run()
    assert run["counts"]["autoAccepted"] == 0
    match = await world.proposal()
    assert match["sampled"]
    withheld = [match[name] for name in ("score", "confidence", "evidence", "explanation", "alternatives")]
    assert withheld == [None, None, [], None, []]
    for path in (f"/expected-transactions/{item}/candidates", f"/incoming-transactions/{line}/candidates"):
        assert (await world.tenant.get(path)).json()["data"] == []
    assert await world.matches(confidence="high") == []
    accepted = (await world.accept(match)).json()
    assert (accepted["confidence"], accepted["sampled"]) == ("high", True)
    assert accepted["explanation"]


async def test_a_proof_teaches_an_alias_that_can_be_forgotten(world: World) -> None:
    await world.expect("10.00", counterpartyName="Ada Lovelace", reference="INV-2026-001")
    await world.receive("10.00", counterpartyName="Analytical Engines", remittance="INV-2026-001")
    await world.set(autoAccept=True)
    await world.run()
    await world.expect("20.00", counterpartyName="Ada Lovelace")
    await world.receive("20.00", counterpartyName="Analytical Engines")
    await world.run()
    match = await world.proposal()
    assert "was matched with" in match["explanation"]
    [alias] = (await world.tenant.get(ALIASES)).json()["data"]
    assert (alias["statementName"], alias["counterpartyName"]) == ("Analytical Engines", "Ada Lovelace")
    assert (alias["status"], alias["confirmations"]) == ("active", 1)
    assert (await world.bystander.get(ALIASES)).json()["data"] == []
    path = f"{ALIASES}/{alias['id']}"
    assert (await world.bystander.request("DELETE", path)).status_code == 404
    for _ in range(2):
        assert (await world.tenant.request("DELETE", path)).status_code == 204
    assert (await world.tenant.get(ALIASES)).json()["data"] == []
    assert (await world.tenant.request("DELETE", f"{ALIASES}/nonsense")).status_code == 404
    # What is forgotten is not learned again.
    await world.expect("30.00", counterpartyName="Ada Lovelace", reference="INV-2026-002")
    await world.receive("30.00", counterpartyName="Analytical Engines", remittance="INV-2026-002")
    await world.run()
    assert (await world.tenant.get(ALIASES)).json()["data"] == []


async def test_a_name_that_means_two_counterparties_tells_nobody(world: World) -> None:
    for number, name in enumerate(("Ada Lovelace", "Charles Babbage")):
        await world.expect(f"{number + 1}.00", counterpartyName=name, reference=f"INV-2026-00{number}")
        await world.receive(f"{number + 1}.00", counterpartyName="Factor Bank", remittance=f"INV-2026-00{number}")
        await world.set(autoAccept=True)
        await world.run()
    [alias] = (await world.tenant.get(ALIASES)).json()["data"]
    assert alias["status"] == "contradicted"
    assert (await world.tenant.get(ALIASES, params={"status": "active"})).json()["data"] == []
