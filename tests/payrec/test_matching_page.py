"""The page on matching says what the engine does: its tables and examples are made by it, and nothing is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from payrec.domain.matching.keys import PROVING_LENGTH_MIN
from payrec.domain.matching.rules import FEATURES, Confidence, GroupLevel, MatchKind, Reason, Uniqueness
from payrec.models.backtests import BacktestCreate, BacktestFigures, BacktestResult
from payrec.models.expected_transactions import ExpectedTransactionCreate
from payrec.models.incoming_transactions import IncomingTransactionPublic
from payrec.models.matches import MatchPublic, MatchRunCreate, MatchRunPublic
from payrec.models.matching_rules import MatchingRule, RuleClassification, RuleScope
from payrec.models.remittance_advices import RemittanceAdviceCreate, RemittanceLine
from payrec.models.tenants import MatchingSettings
from support.matching_examples import EXAMPLES
from support.matching_page import LEVEL_WORDS, PAGE, Told, filled, numbers, told, weights
from support.matching_world import matching_world
from support.service import Service, Tenant

MODELS = (
    MatchPublic, IncomingTransactionPublic, ExpectedTransactionCreate, MatchRunCreate, MatchRunPublic, MatchingRule,
    RuleScope, RuleClassification, BacktestCreate, BacktestResult, BacktestFigures, RemittanceAdviceCreate,
    RemittanceLine,
)  # fmt: skip
"""Of what the page may name members."""

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def stories(service: Service, acme: Tenant, globex: Tenant) -> dict[str, Told]:
    """Return what came of each example, each in a world of its own."""
    found = {}
    for example in EXAMPLES:
        async with matching_world(service, acme, globex) as world:
            found[example.key] = await told(world, example)
    return found


async def test_the_page_is_what_the_engine_says(stories: dict[str, Told], tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    blocks = {key: story.block for key, story in stories.items()}
    wanted = filled(page, {**blocks, "weights": weights(), "numbers": numbers()})
    made = tmp_path / PAGE.name
    made.write_text(wanted, "utf-8")

    assert page == wanted, f"{PAGE.name} is not what the engine says; it would be right as {made}"


async def test_every_kind_of_decision_has_an_example(stories: dict[str, Told]) -> None:
    matches = [match for story in stories.values() for match in story.matches]
    evidence = {(e["feature"], e["level"]) for match in matches for e in match["evidence"]}
    missing = {
        "kind": {kind.name.lower() for kind in MatchKind} - {match["kind"] for match in matches},
        "confidence": {level.name.lower() for level in Confidence} - {match["confidence"] for match in matches},
        "uniqueness": {s.name.lower() for s in Uniqueness} - {match["uniqueness"]["status"] for match in matches},
        "group": {level.name.lower() for level in GroupLevel if level} - {n for f, n in evidence if f == "group"},
    }
    assert {name: gone for name, gone in missing.items() if gone} == {}, "these have no example on the page"


async def test_every_reason_has_an_example_of_its_name(stories: dict[str, Told]) -> None:
    for reason in Reason:
        assert reason.code in stories, f"the reason {reason.code} has no example"
        rows = [*stories[reason.code].expected, *stories[reason.code].incoming]
        assert reason.code in {row["reasonCode"] for row in rows}, f"the example {reason.code} does not show it"


async def test_what_the_text_says_of_the_examples_is_so(stories: dict[str, Told]) -> None:
    accepted = {key for key, story in stories.items() for match in story.matches if match["status"] == "accepted"}
    by_name = {key: [match["confidence"] for match in story.matches] for key, story in stories.items()}

    assert "amount_alone" not in accepted
    assert "by_proved_parts" in accepted
    assert {"by_equal_parts", "by_unnamed_parts", "by_run", "by_run_minus", "by_few"} & accepted == set()
    assert "not_booked" not in accepted
    assert {"part", "too_much", "alike", "by_quotes", "by_some_references", "by_some_instalments"} & accepted == set()
    assert {"by_references_and_one", "by_references_and_more"} & accepted == set()
    assert by_name["reference"] == by_name["end_to_end_id"] == by_name["by_key"] == ["exact"]
    assert by_name["name"] == by_name["account"] == ["high"]


def test_the_settings_and_lengths_that_the_text_names_are_those_of_the_program() -> None:
    page = PAGE.read_text("utf-8")
    settings = {info.alias or name for name, info in MatchingSettings.model_fields.items()}
    fields = {info.alias or name for model in MODELS for name, info in model.model_fields.items()}
    named = set(re.findall(r"`([a-z]+[A-Z]\w+)`", page))

    assert len(named & settings) >= 5
    assert named <= settings | fields
    assert f"at least {PROVING_LENGTH_MIN} characters and a digit" in " ".join(page.split())


def test_a_level_without_words_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for feature, kind in FEATURES.items():
        with monkeypatch.context() as patch:
            last = list(kind)[-1].name
            patch.delitem(LEVEL_WORDS[feature], last)
            with pytest.raises(AssertionError, match=f"the feature {feature} has no words in .* for .*{last}"):
                weights()
