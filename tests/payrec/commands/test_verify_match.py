"""verify-match: everything that a run has made holds, and whatever is changed behind its back is found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from payrec.cli import main
from payrec.config import Config
from payrec.domain.matching.rules import ENGINE_VERSION
from support.match_stories import (
    GROUPS,
    PAIRS,
    Story,
    alike,
    by_instalments,
    by_key,
    by_key_net,
    by_name,
    by_quotes,
    by_references,
    by_references_and_more,
    by_references_and_one,
    by_run,
    by_some_instalments,
    by_some_references,
    in_series,
    in_terms,
    in_text,
    on_behalf,
    pair,
    part,
    too_much,
)
from support.matching_world import TABLES, WORKER_LEAVES, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

# A run keeps names beside its commit, perhaps when it is told to have ended.
STILL = tuple(table for table in TABLES if table not in WORKER_LEAVES | {"counterparty_name"})

Command = Callable[..., Awaitable[tuple[int, str, str]]]
NAMES = ("stored", "score", "confidence", "evidence", "sums", "adjustments", "allocations")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


@pytest.fixture
def payrec(service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return the command: its exit code, output and complaint."""
    config: Config = service.factory.context.config
    monkeypatch.setenv("DEPLOYMENT_ENVIRONMENT", "development")
    monkeypatch.setenv("DATABASE_URL", config.database_url)
    monkeypatch.setenv("API_KEY_PEPPER", config.api_key_pepper.get_secret_value())
    monkeypatch.setenv("ENCRYPTION_KEY", config.encryption_key.get_secret_value())

    async def call(
        match_id: str, *options: str, tenant: str = "acme", environment: str = "production"
    ) -> tuple[int, str, str]:
        capsys.readouterr()
        arguments = ["verify-match", match_id, "--tenant", tenant, "--environment", environment, *options]
        code = await asyncio.to_thread(main, arguments)
        captured = capsys.readouterr()
        # What the service logs meanwhile, in this process too, is none of the command.
        complaint = "".join(line for line in captured.err.splitlines(keepends=True) if not line.startswith("{"))
        return code, captured.out, complaint

    return call


async def verified(payrec: Command, match: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    code, out, _ = await payrec(match["id"], "--json")
    return code, json.loads(out)


def broken(document: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["detail"] for check in document["checks"] if not check["holds"]}


async def proposed(world: World, story: Story) -> dict[str, Any]:
    await story(world)
    await world.run()
    return (await world.matches())[0]


@pytest.mark.parametrize("story", [*PAIRS, *GROUPS, by_run, by_references_and_one, by_references_and_more])
async def test_what_a_run_makes_holds_before_and_after_it_is_accepted(
    world: World, payrec: Command, story: Story
) -> None:
    match = await proposed(world, story)
    before = await world.digest(*STILL)

    code, document = await verified(payrec, match)

    assert (code, document["verified"], broken(document)) == (0, True, {})
    # A set that nobody named is summed up again, and not searched for again.
    more = () if story in PAIRS else ("proof", "search") if story in GROUPS else ("proof",)
    names = (*NAMES, *more)
    assert tuple(check["name"] for check in document["checks"]) == names
    assert (document["explanation"], document["changed"]) == (match["explanation"], [])
    assert document["prior"] + sum(w["weight"] for w in document["weights"]) == pytest.approx(match["score"])
    assert await world.digest(*STILL) == before
    if story is not by_name:
        assert (await world.accept(match)).status_code == 200
        code, document = await verified(payrec, match)
        assert (code, document["status"], broken(document)) == (0, "accepted", {})


@pytest.mark.parametrize("story", [pair, by_key, by_references, in_terms])
async def test_what_is_accepted_without_a_person_holds(world: World, payrec: Command, story: Story) -> None:
    await world.set(autoAccept=True)
    match = await proposed(world, story)
    assert match["decidedBy"].startswith("engine:")

    code, document = await verified(payrec, match)

    assert (code, broken(document)) == (0, {})
    assert "without a person" in {c["name"]: c["detail"] for c in document["checks"]}["confidence"]


async def test_a_match_of_a_rule_names_it(world: World, payrec: Command) -> None:
    await world.set(rules=[{"name": "bolt", "priority": 1, "scope": {"counterpartyName": "BOLT"}}])
    match = await proposed(world, pair)

    code, document = await verified(payrec, match)

    assert (code, broken(document), document["explanation"]) == (0, {}, match["explanation"])
    assert match["explanation"].endswith("Within the bounds of the rule bolt.")
    told = {check["name"]: check["detail"] for check in document["checks"]}
    assert told["rules"] == "proposed within the bounds of bolt, as its run found them"


async def test_a_person_reads_the_sentence_the_score_and_each_check(world: World, payrec: Command) -> None:
    match = await proposed(world, by_some_references)

    code, out, complaint = await payrec(match["id"])

    assert (code, complaint) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:3] == [
        f"match {match['id']} of acme/production",
        f"proposed, one_to_many, 220.00 EUR, made by engine:{ENGINE_VERSION}",
        match["explanation"],
    ]
    assert {"prior -6.0", "reference full +10.0", "group by_some_references +1.0"} <= set(lines)
    assert any(line.startswith("sums yes 220.00 EUR of 2 expected and 220.00 EUR of 1 incoming") for line in lines)
    assert any(line.startswith("search yes 8 sets of 3 tried again, and none but this one") for line in lines)


CHANGES: list[tuple[Story, str, set[str]]] = [
    # a level, the score, the prior decision
    (pair, "UPDATE match SET levels[1] = 3", {"score", "evidence"}),
    (pair, "UPDATE match SET levels[5] = 1", {"score", "evidence"}),
    (pair, "UPDATE match SET levels[4] = 2", {"score"}),
    (pair, "UPDATE match SET levels[8] = 2", {"score", "evidence"}),
    (pair, "UPDATE match SET levels[1] = 99", {"stored"}),
    (pair, "UPDATE match SET levels = levels || 1::smallint || 1::smallint", {"stored"}),
    (pair, "UPDATE match SET uniqueness = 'surely'", {"stored"}),
    (pair, "UPDATE match SET score = score + 100", {"score"}),
    (pair, "UPDATE match SET score = score + 100, created_by = 'engine:1'", {"score"}),
    (pair, "UPDATE match SET confidence = 'medium'", {"confidence"}),
    (pair, "UPDATE match SET uniqueness = 'contested'", {"confidence"}),
    (by_name, "UPDATE match SET confidence = 'exact'", {"confidence"}),
    (alike, "UPDATE match SET confidence = 'high'", {"confidence"}),
    (by_name, "UPDATE match SET decided_by = 'engine:2'", {"confidence"}),
    (by_some_references, "UPDATE match SET decided_by = 'engine:2'", {"confidence"}),
    (by_some_references, "UPDATE match SET confidence = 'exact'", {"confidence"}),
    # the rows behind the levels, without a new revision
    (pair, "UPDATE incoming_transaction SET remittance = 'INV-2026-002', end_to_end_id = 'other'", {"evidence"}),
    (pair, "UPDATE expected_transaction SET counterparty_account = 'DE02120300000000202051'", {"evidence"}),
    (pair, "UPDATE expected_transaction SET due_on = '2026-03-01'", {"evidence"}),
    (by_name, "UPDATE incoming_transaction SET pending = false", {"evidence"}),
    (by_references, "UPDATE expected_transaction SET counterparty_name = 'Other'", {"evidence"}),
    (by_references, "UPDATE expected_transaction SET due_on = '2026-01-01' WHERE amount_minor = 8000", {"evidence"}),
    (by_key, "UPDATE incoming_transaction SET remittance = NULL", {"evidence"}),
    (by_key_net, "UPDATE incoming_transaction SET remittance = NULL", {"evidence"}),
    (by_key_net, "UPDATE match SET confidence = 'high'", {"confidence"}),
    (by_references_and_one, "UPDATE match SET confidence = 'high'", {"confidence"}),
    (by_references_and_one, """UPDATE match SET proof = proof || '{"named": 3}'""", {"proof"}),
    (by_references_and_more, """UPDATE match SET proof = proof || '{"coincidencesPpm": 900000}'""", {"proof"}),
    # what was kept
    (by_key_net, "UPDATE match SET adjustments = NULL", {"adjustments", "sums", "search"}),
    (
        by_key_net,
        """UPDATE match SET adjustments = jsonb_set(adjustments, '{0,type}', '"write_off"')""",
        {"adjustments"},
    ),
    # legs and amounts
    (pair, "UPDATE leg SET amount_minor = 9999", {"sums"}),
    (pair, "UPDATE leg SET settled_minor = 9999", {"sums"}),
    (pair, "UPDATE match SET amount_minor = 9999", {"sums"}),
    (pair, "UPDATE match SET amount_minor = 9999; UPDATE leg SET amount_minor = 9999, settled_minor = 9999", {"sums"}),
    (pair, "UPDATE match SET kind = 'one_to_many'", {"sums"}),
    (pair, "UPDATE expected_transaction SET currency = 'USD'", {"sums", "adjustments"}),
    (pair, "UPDATE expected_transaction SET amount_minor = 9999", {"sums"}),
    (pair, "UPDATE leg SET expected_id = '01900000-0000-7000-8000-000000000000'", {"stored"}),
    (part, "UPDATE incoming_transaction SET amount_minor = 6001", {"sums"}),
    (too_much, "UPDATE expected_transaction SET amount_minor = 10001", {"sums"}),
    (by_references, "DELETE FROM leg WHERE ordinal = 2", {"sums", "proof"}),
    (by_references, "UPDATE leg SET amount_minor = amount_minor + 1 - ordinal WHERE ordinal < 3", {"sums"}),
    (pair, "UPDATE leg SET valid_from = match_id", {"allocations"}),
    # the group's proof
    (by_references, "UPDATE match SET proof = NULL", {"proof"}),
    (by_references, """UPDATE match SET proof = '{"sets": "1"}'""", {"proof"}),
    (by_references, """UPDATE match SET proof = proof || '{"named": 4}'""", {"proof"}),
    (by_some_references, """UPDATE match SET proof = proof || '{"sets": 4}', candidates = 4""", {"proof"}),
    (by_some_references, """UPDATE match SET proof = proof || '{"sets": 7}', candidates = 7""", {"proof"}),
    (by_some_references, """UPDATE match SET proof = proof || '{"sets": 16}', candidates = 16""", {"proof"}),
    (by_some_references, "UPDATE match SET candidates = 9", {"proof"}),
    (by_quotes, "UPDATE incoming_transaction SET remittance = 'INV-2026-1'", {"evidence"}),
    (by_quotes, "UPDATE expected_open SET open_minor = 9000 WHERE open_minor = 10000", {"search"}),
    (in_series, "UPDATE incoming_transaction SET remittance = 'INV-2026-1401/02/04'", {"evidence"}),
    (in_series, "UPDATE expected_open SET reference_digits = NULL WHERE open_minor = 5023", {"search"}),
    (by_references, """UPDATE match SET proof = jsonb_set(proof, '{bounds,groupSizeMax}', '2')""", {"proof"}),
    (by_run, """UPDATE match SET proof = proof || '{"coincidencesPpm": 60000}'""", {"proof"}),
    (by_references, """UPDATE match SET proof = proof || '{"coincidencesPpm": 0}'""", {"proof"}),
    (by_run, "UPDATE match SET confidence = 'high'", {"confidence"}),
    (on_behalf, "UPDATE incoming_transaction SET ultimate_counterparty_name = 'Holding'", {"evidence"}),
    (in_text, "UPDATE incoming_transaction SET remittance = 'ACH CREDIT BOLT'", {"evidence"}),
    # what was open beside it
    (by_some_references, "UPDATE expected_open SET open_minor = 22000 - 8000 WHERE open_minor = 12000", {"search"}),
    (by_some_references, "UPDATE expected_open SET open_minor = 10000 WHERE open_minor = 8000", {"search"}),
    (by_some_instalments, "UPDATE incoming_open SET open_minor = 4000 WHERE open_minor = 7000", {"search"}),
    (
        by_key,
        "DELETE FROM expected_open WHERE transaction_id = (SELECT max(expected_id::text)::uuid FROM leg)",
        {"search"},
    ),
    (by_key, "UPDATE expected_open SET open_minor = open_minor + 1", {"search"}),
]


@pytest.mark.parametrize(("story", "change", "names"), CHANGES, ids=[f"{s.__name__}: {c}" for s, c, _ in CHANGES])
async def test_what_is_changed_behind_its_back_is_found(
    world: World, payrec: Command, story: Story, change: str, names: set[str]
) -> None:
    match = await proposed(world, story)
    for statement in change.split("; "):
        await world.sql(statement)

    code, document = await verified(payrec, match)

    assert (code, document["verified"]) == (1, False)
    assert set(broken(document)) == names, broken(document)


async def test_an_acceptance_that_allocates_something_else_is_found(world: World, payrec: Command) -> None:
    match = await proposed(world, by_instalments)
    assert (await world.accept(match)).status_code == 200
    for change, undo in (
        ("UPDATE allocation SET allocated_minor = allocated_minor - 1", "allocated_minor + 1"),
        ("UPDATE leg SET valid_to = valid_from WHERE ordinal = 1", None),
    ):
        await world.sql(change)
        code, document = await verified(payrec, match)
        assert (code, set(broken(document))) == (1, {"allocations"}), broken(document)
        if undo:
            await world.sql(f"UPDATE allocation SET allocated_minor = {undo}")  # noqa: S608 - our own text


async def test_rows_that_have_changed_since_are_named_and_not_looked_up(world: World, payrec: Command) -> None:
    match = await proposed(world, by_references)
    item = match["legs"][0]["expectedTransactionId"]
    await world.sql("UPDATE expected_transaction SET reference = 'X', revision = 2 WHERE id = %s", item)

    code, out, _ = await payrec(match["id"])
    _, document = await verified(payrec, match)

    assert code == 0
    assert out.splitlines()[-1] == (f"expected {item} has changed since: the match was made for revision 1, it is at 2")
    assert document["changed"] == [{"side": "expected", "id": item, "revision": 1, "revisionNow": 2}]
    told = {check["name"]: check["detail"] for check in document["checks"]}
    assert told["evidence"] == "the rows of 2 of 3 legs say what the levels do"
    assert "search" not in told


async def test_what_came_later_does_not_count_against_a_group(world: World, payrec: Command) -> None:
    match = await proposed(world, by_key)
    await world.expect("10.00", groupKey="PO-2026-7", externalId="late")

    code, document = await verified(payrec, match)

    assert (code, broken(document)) == (0, {})
    assert "1 came later" in {c["name"]: c["detail"] for c in document["checks"]}["search"]
    await world.sql("UPDATE expected_transaction SET created_at = '2020-01-01'")
    assert set(broken((await verified(payrec, match))[1])) == {"search"}


async def test_who_asks_for_what_is_not_there_has_mistyped(
    world: World, payrec: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    match = await proposed(world, pair)
    unknown = "01900000-0000-7000-8000-000000000000"
    for match_id, place in (
        (unknown, {}),
        (match["id"], {"tenant": "globex"}),
        (match["id"], {"environment": "test"}),
        (match["id"], {"tenant": "nobody"}),
    ):
        code, out, complaint = await payrec(match_id, **place)
        assert (code, out) == (2, "")
        assert complaint.startswith(f"payrec: there is no match {match_id} in ")
    with pytest.raises(SystemExit) as ended:
        await payrec("seven")
    assert ended.value.code == 2
    assert "must be a UUID" in capsys.readouterr().err


async def test_who_reads_the_exit_code_alone_is_told_what_fails(world: World, payrec: Command) -> None:
    match = await proposed(world, pair)
    await world.sql("UPDATE match SET score = 0")

    code, out, complaint = await payrec(match["id"])

    assert (code, complaint) == (1, f"payrec: match {match['id']} does not hold: score\n")
    assert "score        NO" in out
