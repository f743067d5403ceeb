"""What a run over some of the lines has to be told of the others, so that it is no surer than one over all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from payrec.domain.matching.digits import is_alike
from payrec.domain.matching.engine import Proposals, propose
from payrec.domain.matching.left_out import rivals_wanted
from payrec.domain.matching.partial import of_some_lines
from payrec.domain.matching.rules import Confidence, MatchingRules
from payrec.domain.matching.weights import Calibration
from support.matching_frames import DAY, Item, Line, expected_frame, incoming_frame, names_frame

RULES: Final = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
TOLERANT: Final = MatchingRules(auto_accept=True, auto_accept_min_confidence="high", amount_tolerance_minor=200)


def asks(kind: str, want: dict[str, Any], line: dict[str, Any], names: set[int]) -> bool:
    """Tell whether a line that was left out is what is asked for, as ``payrec.storage.other_lines`` does."""
    if kind == "own":
        return bool(want["account_key"] == line["own_account_key"])
    if (want["currency"], want["direction"]) != (line["currency"], line["direction"]):
        return False
    if kind == "quoted":
        return want["key"] in [*line["reference_keys"], line["group_key"]]
    if kind == "of_party":
        name, account = want["name_key"], want["account_key"]
        same = name is not None and name in {line["name_key"], line["ultimate_name_key"]}
        same |= account is not None and account == line["account_key"]
        return same and want["low_minor"] <= line["amount_minor"] <= want["high_minor"]
    digits = want["reference_digits"]
    near = digits is not None and any(is_alike(digits, said) for said in line["quoted_digits"] or ())
    hinted = want["reference_key"] in line["reference_keys"] or digits in (line["series_digits"] or ())
    stranger = want["is_stranger"] and line["name_key"] not in names
    told = want["is_anybody"] or stranger or near or hinted
    return bool(told and want["amount_minor"] == line["amount_minor"])


def over(items: list[Item], lines: list[Line], others: list[Line], rules: MatchingRules) -> Proposals:
    """Return what a run over some of the lines proposes, told of the others."""
    expected, incoming = expected_frame(items), incoming_frame(lines)
    made = propose(expected, incoming, rules, names=names_frame([*items, *lines]))
    wanted = rivals_wanted(made, expected, incoming, rules)
    names = set(expected["name_key"].drop_nulls())
    there = incoming_frame([line for line in others if not line.reversal and not line.duplicate])
    found = {
        want["proposal"]
        for kind in ("quoted", "of_party", "paid", "own")
        for want in getattr(wanted, kind).iter_rows(named=True)
        for line in there.iter_rows(named=True)
        if asks(kind, want, line, names)
    }
    return of_some_lines(made, pl.Series("proposal", sorted(found), dtype=pl.Int64))


def sure(proposals: Proposals, items: list[Item], lines: list[Line]) -> dict[str, set[tuple[str | None, ...]]]:
    """Return what each line is surely matched with."""
    told = proposals.matches.with_row_index("proposal")
    told = told.filter(pl.col("auto") | (pl.col("confidence") >= Confidence.HIGH.value))
    found: dict[str, set[tuple[str | None, ...]]] = {}
    for leg in proposals.legs.join(told, on="proposal", how="semi").iter_rows(named=True):
        ends = [
            None if leg[name] is None else rows[leg[name]].id
            for name, rows in (
                ("expected", items),
                ("contra_expected", items),
                ("incoming", lines),
                ("contra_incoming", lines),
            )
        ]
        for line in ends[2:]:
            if line is not None:
                found.setdefault(line, set()).add(tuple(ends))
    return found


NAMES: Final = ["Bolt Works", "Bolt Works Berlin", "Ada Lovelace"]
NUMBERS: Final = ["INV-2026-0040", "INV-2026-0041", "INV-2026-0042", "RE7"]
TEXTS: Final = [
    *NUMBERS, "INV-2026-0140", "2026-0041", "INV-2026-0040 INV-2026-0041", "INV-2026-0040/41", "PO-2026-41",
    "Bolt Works", "thank you Ada Lovelace", "thanks",
]  # fmt: skip


def maybe(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, None, *values])


ITEMS: Final = st.builds(
    Item,
    id=st.just(""),
    amount=st.sampled_from([10_000, 10_150, 5_000]),
    reference=maybe(*NUMBERS),
    name=maybe(*NAMES),
    iban=maybe("DE1"),
    end_to_end_id=maybe("E2E-2026-0041"),
    group=maybe("PO-2026-41"),
    direction=st.sampled_from([1, 1, 1, -1]),
    terms=st.sampled_from([(), (), ((9_800, DAY),)]),
    band=st.sampled_from([(None, None), (None, None), (9_000, 11_000)]),
)
LINES: Final = st.builds(
    Line,
    id=st.just(""),
    amount=st.sampled_from([10_000, 10_000, 10_150, 5_000, 20_000, 150, 75, 15_000, 9_800]),
    text=maybe(*TEXTS),
    name=maybe(*NAMES, "Factor Bank", "Bolt Wroks"),
    iban=maybe("DE1", "GIRO"),
    end_to_end_id=maybe("E2E-2026-0041", "INV-2026-0040"),
    ultimate=maybe(*NAMES),
    direction=st.sampled_from([1, 1, 1, -1]),
    account=maybe("GIRO", "SAVINGS"),
    group=maybe("PO-2026-41"),
    pending=st.sampled_from([False, False, False, True]),
    day=st.sampled_from([DAY, DAY, DAY + 2, DAY + 40]),
)
PAYER: Final = Item("", reference=NUMBERS[1], name="Bolt Works")
SILENT: Final = Line("", name="Bolt Works")
BEHALF: Final = Line("", name="Factor Bank", ultimate="Bolt Works")
TERMS: Final = replace(PAYER, terms=((9_800, DAY),))
QUOTES: Final = Line("", text=NUMBERS[1], name="Bolt Works")


@settings(max_examples=40)
@given(
    items=st.lists(ITEMS, min_size=1, max_size=4),
    lines=st.lists(LINES, min_size=1, max_size=3),
    others=st.lists(LINES, min_size=1, max_size=3),
    rules=st.sampled_from([RULES, TOLERANT]),
)
@example(items=[PAYER], lines=[SILENT], others=[replace(SILENT, name=None, text="2026-0041")], rules=RULES)
@example(items=[PAYER], lines=[SILENT], others=[BEHALF], rules=RULES)
@example(items=[PAYER], lines=[SILENT], others=[replace(SILENT, amount=10_100)], rules=TOLERANT)
@example(items=[PAYER], lines=[replace(SILENT, iban="GIRO")], others=[Line("", account="GIRO")], rules=RULES)
@example(items=[PAYER], lines=[QUOTES], others=[replace(QUOTES, amount=5_000)], rules=RULES)
@example(items=[PAYER], lines=[replace(QUOTES, name="Ada Lovelace")], others=[SILENT], rules=RULES)
@example(items=[PAYER], lines=[replace(QUOTES, amount=9_850)], others=[replace(SILENT, amount=150)], rules=TOLERANT)
@example(items=[TERMS], lines=[replace(SILENT, amount=9_800)], others=[SILENT], rules=RULES)
def test_a_run_over_some_lines_is_no_surer_than_one_over_all(
    items: list[Item], lines: list[Line], others: list[Line], rules: MatchingRules
) -> None:
    items = [replace(item, id=f"e{at}") for at, item in enumerate(items)]
    every = [replace(line, id=f"i{at}") for at, line in enumerate([*lines, *others])]
    lines, others = every[: len(lines)], every[len(lines) :]
    names = names_frame([*items, *every])
    whole = sure(propose(expected_frame(items), incoming_frame(every), rules, names=names), items, every)
    for line, legs in sure(over(items, lines, others, rules), items, lines).items():
        assert whole.get(line) == legs


def test_what_is_sure_by_a_score_alone_is_not_when_others_were_left_out() -> None:
    # Whoever of them has the item's name in his own words was not compared with it.
    items = [replace(PAYER, id="e", name="Quentlin Maschinenbau GmbH")]
    lines = [Line("i", name="Quentlin Maschinenba")]
    rules = replace(RULES, calibration=Calibration(version=1, threshold_milli=-20_000, reviewed=3_000))
    alone = propose(expected_frame(items), incoming_frame(lines), rules, names=names_frame([*items, *lines]))
    assert sure(alone, items, lines)
    assert not sure(over(items, lines, [], rules), items, lines)
