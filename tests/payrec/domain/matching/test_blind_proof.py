"""Equal parts that need no person, by example: what proves them, and each thing that keeps them from it."""

from __future__ import annotations

from dataclasses import replace

from payrec.domain.matching.provable import PROVED_PPM_MAX
from payrec.domain.matching.rules import Confidence, GroupLevel, MatchingRules, Uniqueness
from support.blind_sets import AMOUNTS, AUTO, IBAN, MEDIUM, items_of, parts, paying
from support.matching_frames import Item, level, only, run, sure

PROVED = (Confidence.HIGH, Uniqueness.UNIQUE, True)


def test_equal_parts_are_accepted_where_high_is_enough() -> None:
    group = only(run(items_of(100_007), parts(50_003, 50_004), MatchingRules(auto_accept=True)))
    assert sure(group) == (Confidence.HIGH, Uniqueness.UNIQUE, False)
    outcome = run(items_of(100_007), parts(50_003, 50_004), AUTO)
    [expected] = outcome.proposals.matches["coincidences_ppm"]
    assert 0 < expected <= PROVED_PPM_MAX


def of_payer(*amounts: int) -> list[Item]:
    """Return further items, due so far away that no line may pay them."""
    return [
        Item(f"f{at}", amount=amount, iban=IBAN, name="Ada Ltd", due=20_900 + at, reference=f"INV-8{at:04d}")
        for at, amount in enumerate(amounts)
    ]


def test_equal_parts_of_a_round_item_prove_nothing() -> None:
    assert sure(only(run(items_of(100_000), parts(50_000, 50_000), AUTO))) == MEDIUM


def test_equal_parts_that_begin_late_prove_nothing() -> None:
    lines = [replace(line, day=(line.day or 0) + 5) for line in parts(50_003, 50_004)]
    assert sure(only(run(items_of(100_007), lines, AUTO))) == MEDIUM


def test_who_owes_the_amount_of_a_part_or_of_the_whole_again_proves_nothing_by_parts() -> None:
    for beside, wanted in (((50_003,), MEDIUM), ((100_007,), MEDIUM), ((50_005,), PROVED)):
        [group] = run([*items_of(100_007), *of_payer(*beside)], parts(50_003, 50_004), AUTO).groups
        assert sure(group) == wanted


def test_who_charges_by_the_piece_proves_nothing_by_parts() -> None:
    """Three times one price may be three missing items of one piece, as well as one of three."""
    lines = parts(49_999, 49_999, 49_999)
    for beside, wanted in (((99_998, 349_993), MEDIUM), ((99_998, 349_994), PROVED)):
        [group] = run([*items_of(149_997), *of_payer(*beside)], lines, AUTO).groups
        assert sure(group) == wanted


def test_equal_parts_of_somebody_who_is_called_otherwise_prove_nothing() -> None:
    lines = parts(50_003, 50_004)
    assert sure(only(run(items_of(100_007), [replace(lines[0], name="Bolt"), lines[1]], AUTO))) == MEDIUM


def test_a_run_proves_nothing_because_one_that_is_missing_may_be_replaced() -> None:
    """The payer means the second of four, which is not there; the fifth has its amount, and so there is a run again."""
    items = items_of(*AMOUNTS[:4], AMOUNTS[1])
    line = paying(items, 0, 1, 2, 3)
    group = only(run([items[0], *items[2:]], [line], AUTO))
    assert (level(group), sure(group)) == (GroupLevel.BY_RUN, MEDIUM)
