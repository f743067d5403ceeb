"""What says that a line is of something else than its amount and its payer, or its number, say: a person decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payrec.domain.matching.rules import KEY_ITEMS_MAX, Confidence, LineLevel, MatchingRules, Uniqueness
from support.matching_frames import DAY, Item, Line, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
ALPHA, BETA = "DE89370400440532013000", "DE02120300000000202051"
ADAS = Item("ada", 5_000, reference="INV-2026-0041", name="Ada Lovelace")
BOLTS = Item("bolt", 5_000, reference="INV-2026-0042", name="Bolt Works")
BY_BOLT = Line("x", 5_000, text="INV-2026-0041", name="Bolt Works")
MINE = Item("mine", 5_000, reference="INV-2026-0099", name="Bolt Works", iban=ALPHA)
QUOTES = Line("x", 5_000, text="INV-2026-0052", name="Bolt Works", iban=ALPHA)
NAMESAKE = Item("namesake", 12_000, name="Thomas Müller", iban=BETA)
OF_TWO = replace(BY_BOLT, amount=15_000, text="INV-2026-0043 INV-2026-0041")
BOLTS_OTHER = Item("other", 10_000, reference="INV-2026-0043", name="Bolt Works")


@pytest.mark.parametrize(
    ("items", "line", "doubt"),
    [
        pytest.param([ADAS], BY_BOLT, BOLTS, id="an item of the payer's own has the amount of what he quotes"),
        pytest.param([ADAS, BOLTS_OTHER], OF_TWO, BOLTS, id="the same within a set"),
        pytest.param(
            [ADAS],
            replace(BY_BOLT, name=None, text="Bolt Works, INV-2026-0041"),
            BOLTS,
            id="the same, and nothing but the text names the payer",
        ),
        pytest.param(
            [ADAS, BOLTS_OTHER],
            replace(OF_TWO, name=None, text="INV-2026-0043 INV-2026-0041 BOLT WORKS"),
            BOLTS,
            id="the same of that within a set",
        ),
        pytest.param(
            [Item("his", 10_000, name="Thomas Müller", iban=ALPHA)],
            Line("x", text="thanks", name="Thomas Mueller", iban=BETA),
            NAMESAKE,
            id="the account is another one's of that name",
        ),
        pytest.param(
            [MINE], QUOTES, replace(BOLTS, reference="INV-2026-0052", currency="USD"), id="the quoted one is in USD"
        ),
        pytest.param(
            [MINE],
            QUOTES,
            replace(BOLTS, reference="INV-2026-0052", direction=-1),
            id="the quoted one is a credit note",
        ),
        pytest.param(
            [MINE], QUOTES, replace(BOLTS, reference="INV-2026-0052", due=DAY - 90), id="the quoted one is long over"
        ),
        pytest.param(
            [replace(MINE, name="Bolt Works")],
            replace(QUOTES, text="thanks", ultimate="Ada Lovelace"),
            replace(ADAS, amount=11_900),
            id="it is paid on behalf of somebody else",
        ),
        pytest.param(
            [
                Item("a", 10_000, reference="INV-2026-0061", name="C"),
                Item("c", 10_000, reference="INV-2026-0063", name="C"),
            ],
            Line("x", 20_000, text="INV-2026-0061 bis INV-2026-0063", name="C"),
            Item("b", 5_000, reference="INV-2026-0062", name="C"),
            id="one more is named between those that sum up",
        ),
    ],
)
def test_what_says_otherwise_is_for_a_person(items: list[Item], line: Line, doubt: Item) -> None:
    assert [match.auto for match in run(items, [line], RULES).matches] == [True]
    [match] = run([*items, doubt], [line], RULES).matches
    assert (match.confidence, match.status, match.auto) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    assert sum(match.rivals) > 0


def test_two_that_quote_each_others_numbers_are_both_for_a_person() -> None:
    lines = [replace(BY_BOLT, id="b"), Line("a", 5_000, text="INV-2026-0042", name="Ada Lovelace")]
    found = run([ADAS, BOLTS], lines, RULES).matches
    assert len(found) == len(lines)
    assert not any(match.auto for match in found)


def test_a_part_of_somebody_elses_item_that_is_just_an_item_of_ones_own_is_for_a_person() -> None:
    whole = Item("e", 10_000, reference="INV-2026-1000", name="Ada Lovelace")
    parts = [Line("a", 4_000, text="INV-2026-1000", name="Ada Lovelace"), replace(BY_BOLT, amount=6_000)]
    parts[1] = replace(parts[1], text="INV-2026-1000")
    assert [match.auto for match in run([whole], parts, RULES).matches] == [True]
    own = replace(BOLTS, amount=6_000)
    assert not any(match.auto for match in run([whole, own], parts, RULES).matches)


def test_a_rejected_number_leaves_what_else_has_the_amount_to_a_person() -> None:
    quoted = replace(BOLTS, reference="INV-2026-0052")
    [match] = run([quoted, MINE], [QUOTES], RULES, rejected=[("bolt", "x")]).matches
    assert (match.ends[0], match.confidence, match.auto) == (frozenset({"mine"}), Confidence.MEDIUM, False)


BILL = Item("bill", direction=-1, reference="2026-1001", name="Alpha Supplies", iban=ALPHA)
BILLS = [BILL, replace(BILL, id="more", amount=5_000, reference="2026-1002")]
DIVERTED = Line("x", direction=-1, text="2026-1001", name="Alpha Supplies", iban=BETA)


@pytest.mark.parametrize(
    ("items", "line"),
    [
        pytest.param([BILL], DIVERTED, id="name and number agree"),
        pytest.param([BILL], replace(DIVERTED, name=None), id="the number agrees"),
        pytest.param([BILL], replace(DIVERTED, text=None), id="the name agrees"),
        pytest.param(BILLS, replace(DIVERTED, amount=15_000, text="2026-1001 2026-1002"), id="all numbers agree"),
        pytest.param(
            [replace(it, group="ORD-10023") for it in BILLS],
            replace(DIVERTED, amount=15_000, text="ORD-10023"),
            id="the group id agrees",
        ),
    ],
)
def test_what_goes_out_to_another_account_than_the_bills_is_for_a_person(items: list[Item], line: Line) -> None:
    [match] = run(items, [line], RULES).matches
    assert (match.status, match.auto) == (Uniqueness.CONTESTED, False)
    for same in (replace(line, iban=ALPHA), replace(line, ultimate="Alpha Supplies", name="Factoring AG")):
        assert [match.auto for match in run(items, [same], RULES).matches] == [True]
    # Who pays us may have as many accounts as he likes.
    paying = [replace(it, direction=1) for it in items]
    assert [match.auto for match in run(paying, [replace(line, direction=1)], RULES).matches] == [True]


@pytest.mark.parametrize("iban", [None, ALPHA])
def test_a_bills_number_proves_nothing_for_another_supplier(iban: str | None) -> None:
    bill = Item("bill", direction=-1, reference="2026-1001", name="Alpha Supplies", iban=iban)
    paid = Line("x", direction=-1, text="2026-1001", name="Beta Trading", iban=BETA)
    [match] = run([bill], [paid], RULES).matches
    assert not match.auto
    unknown = replace(paid, iban=None)
    assert [match.auto for match in run([bill], [unknown], RULES).matches] == [False]
    # Whom we pay by an id of ours his bank may call otherwise, and so it may whoever has the account.
    own = [replace(it, end_to_end_id="OUT-20260310-7") for it in (bill, unknown)]
    assert [match.auto for match in run([own[0]], [own[1]], RULES).matches] == [True]
    same = [replace(it, iban=ALPHA) for it in (bill, paid)]
    assert [match.auto for match in run([same[0]], [same[1]], RULES).matches] == [True]
    incoming = run([replace(bill, direction=1)], [replace(paid, direction=1)], RULES)
    assert [match.auto for match in incoming.matches] == [True]


def test_equal_parts_that_quote_something_else_are_for_a_person() -> None:
    whole = Item("e", 100_007, name="Bolt Works")
    parts = [Line("a", 50_003, name="Bolt Works", day=DAY + 1), Line("b", 50_004, name="Bolt Works", day=DAY + 31)]
    assert [match.auto for match in run([whole], parts, RULES).matches] == [True]
    quoting = [replace(line, text=f"INV-2026-090{at}") for at, line in enumerate(parts)]
    assert not any(match.auto for match in run([whole], quoting, RULES).matches)


@pytest.mark.parametrize("step", [0, 1_000])
def test_of_those_that_have_one_reference_each_is_paid_by_its_own_counterparty(step: int) -> None:
    names = ["Ada Lovelace", "Ben Bolt", "Cyd Charisse"]
    amounts = [50_000 + step * at for at in range(len(names))]
    items = [
        Item(name, amount, reference="RENT 03/2026", name=name) for name, amount in zip(names, amounts, strict=True)
    ]
    lines = [
        Line(f"by {name}", amount, text="Rent 03/2026", name=name) for name, amount in zip(names, amounts, strict=True)
    ]
    found = run(items, lines, RULES).matches
    assert {match.legs[0][:2]: match.auto for match in found} == {(name, f"by {name}"): True for name in names}
    # Once more, by one who has paid already.
    again = replace(lines[0], amount=items[1].amount)
    assert [match.auto for match in run(items[1:], [again], RULES).matches] == [False]


def test_a_reference_of_several_proves_no_sum_that_somebody_else_pays() -> None:
    items = [replace(ADAS, id=str(minor), amount=minor, reference="FLAT-12345") for minor in (10_000, 5_000)]
    line = replace(BY_BOLT, amount=15_000, text="FLAT-12345")
    for several in (items, [items[0], replace(items[1], name="Ben Bolt")]):
        [match] = run(several, [line], RULES).matches
        assert (match.status, match.auto) == (Uniqueness.CONTESTED, False)
    assert [match.auto for match in run(items, [replace(line, name="Ada Lovelace")], RULES).matches] == [True]


def test_a_group_id_of_somebody_elses_items_is_for_a_person_where_the_payer_owes_just_that() -> None:
    orders = [replace(ADAS, id=f"a{at}", amount=minor, group="ORD-10023") for at, minor in enumerate((3_000, 2_000))]
    line = replace(BY_BOLT, text="ORD-10023")
    for items in (orders, [replace(ADAS, group="ORD-10023")]):
        assert [match.auto for match in run(items, [line], RULES).matches] == [True]
        [match] = run([*items, BOLTS], [line], RULES).matches
        ids = frozenset(it.id for it in items)
        assert (match.ends[0], match.status, match.auto) == (ids, Uniqueness.CONTESTED, False)
        # What he owes besides is of another amount.
        assert run([*items, replace(BOLTS, amount=5_001)], [line], RULES).matches[0].auto


def test_what_goes_out_by_a_group_id_to_another_one_than_its_bills_are_of_is_for_a_person() -> None:
    bills = [
        Item(f"b{at}", minor, direction=-1, reference=f"RE-700{at}", group="ORD-10023", name="Ada Lovelace", iban=ALPHA)
        for at, minor in enumerate((3_000, 2_000))
    ]
    line = Line("x", 5_000, direction=-1, text="ORD-10023", name="Bolt Works", iban=BETA)
    [match] = run(bills, [line], RULES).matches
    assert (match.confidence, match.status, match.auto) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    # By what the bank does not say, and by an order for several, whatever the bank calls it, nothing is contradicted.
    others = [bills[0], replace(bills[1], name="Charles Babbage", iban="DE02100500000054540402")]
    for items, paid in ((bills, replace(line, iban=None)), (others, line), (bills, replace(line, iban=ALPHA))):
        assert [match.auto for match in run(items, [paid], RULES).matches] == [True]


@pytest.mark.parametrize(
    ("quoted", "rules"),
    [
        (replace(MINE, amount=5_003), replace(RULES, amount_tolerance_minor=5)),
        (replace(MINE, amount=5_003), replace(RULES, fee_tolerance_minor=500)),
        (replace(MINE, amount=5_500, band=(5_000, 6_000)), RULES),
    ],
)
def test_who_pays_nearly_what_he_quotes_and_just_what_another_one_asks_for_may_have_mistaken_it(
    quoted: Item, rules: MatchingRules
) -> None:
    line = replace(QUOTES, text=quoted.reference)
    other = replace(MINE, id="other", reference="INV-2026-0071")
    assert [match.auto for match in run([quoted], [line], rules).matches] == [True]
    [match] = run([quoted, other], [line], rules).matches
    assert (match.item, match.confidence, match.status, match.auto) == (
        "mine",
        Confidence.MEDIUM,
        Uniqueness.CONTESTED,
        False,
    )
    # Of another amount it says nothing, nor does one whose number is quoted to the minor unit.
    assert run([quoted, replace(other, amount=5_001)], [line], rules).matches[0].auto
    assert run([quoted, replace(other, name="Ada Lovelace", iban=BETA)], [line], rules).matches[0].auto
    assert run([replace(quoted, amount=5_000, band=(None, None)), other], [line], rules).matches[0].auto


@pytest.mark.parametrize("payer", [None, "Holding AG"])
@pytest.mark.parametrize("rules", [replace(RULES, amount_tolerance_minor=5), replace(RULES, fee_tolerance_minor=500)])
def test_so_may_whoever_pays_it_that_is_not_said_to_be_the_counterparty(
    payer: str | None, rules: MatchingRules
) -> None:
    quoted, other = replace(MINE, amount=5_003), replace(MINE, id="other", reference="INV-2026-0071", due=DAY + 20)
    line = replace(QUOTES, text=quoted.reference, name=payer, iban=None)
    [match] = run([quoted, other], [line], rules).matches
    told = (match.item, dict(match.levels)["line"], match.confidence, match.status, match.auto)
    assert told == ("mine", LineLevel.DIFFERS_BY_OTHER, Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    for no_other in (
        replace(other, amount=5_001),
        replace(other, currency="USD"),
        replace(other, direction=-1),
        replace(other, name="Ada Lovelace", iban=BETA),
    ):
        assert [match.auto for match in run([quoted, no_other], [line], rules).matches] == [True]
    # Nor is it told of several that are quoted.
    more = replace(MINE, id="more", amount=9_000, reference="INV-2026-0072")
    both, just = replace(line, amount=14_000, text=f"{line.text} {more.reference}"), replace(other, amount=14_000)
    assert [match.auto for match in run([quoted, more, replace(other, amount=4_000)], [both], rules).matches] == [True]
    assert not any(match.auto for match in run([quoted, more, just], [both], rules).matches)


PAID = Item("paid", 5_000, reference="INV-2026-0052", name="Bolt Works", iban=ALPHA)


@pytest.mark.parametrize(
    ("closed", "line"),
    [
        pytest.param(PAID, QUOTES, id="by account and name"),
        pytest.param(replace(PAID, iban=None, amount=7_000), QUOTES, id="by the name alone, whatever its amount"),
        pytest.param(replace(PAID, name="Bolt"), QUOTES, id="by the account alone"),
        pytest.param(PAID, replace(QUOTES, name="Bolt Work", iban=None), id="by a name that is like it"),
        pytest.param(replace(PAID, iban=None), replace(QUOTES, name=None), id="by what nothing contradicts"),
    ],
)
def test_who_quotes_what_he_has_paid_may_have_paid_it_twice(closed: Item, line: Line) -> None:
    [before] = run([MINE], [line], RULES).matches
    [match] = run([MINE], [line], RULES, closed=[closed]).matches
    assert (match.confidence, match.status, match.auto) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    assert (dict(before.levels)["line"], dict(match.levels)["line"]) == (LineLevel.BOOKED, LineLevel.QUOTES_OTHER)
    assert (before.auto, before.score) == (line.iban is not None, match.score)


@pytest.mark.parametrize(
    ("paid", "items", "lines"),
    [
        pytest.param(4_850, [Item("note", 150, direction=-1, iban=ALPHA)], [], id="a credit note lets it off"),
        pytest.param(4_850, [], [Line("rest", 150, text="rest", iban=ALPHA, day=DAY + 4)], id="the rest is paid, too"),
        pytest.param(5_150, [Item("more", 150, iban=ALPHA)], [], id="another item asks for it"),
        pytest.param(5_150, [], [Line("back", 150, direction=-1, iban=ALPHA)], id="it was given back"),
    ],
)
@pytest.mark.parametrize("text", ["INV-2026-0099", "thanks"])
def test_a_tolerated_difference_that_is_something_else_is_for_a_person(
    paid: int, items: list[Item], lines: list[Line], text: str
) -> None:
    rules = replace(RULES, amount_tolerance_minor=200)
    line = replace(QUOTES, amount=paid, text=text)
    # Two of them, so that no single one of them is what the payment is meant for beside.
    others = [replace(item, id=f"{item.id}{at}", tie=str(at)) for at in range(2) for item in items]
    # Of another counterparty's, and of another amount, it says nothing.
    beside = [*(replace(item, iban=BETA) for item in others), *(replace(item, amount=151) for item in others)]
    aside = [*(replace(it, iban=BETA) for it in lines), *(replace(it, id=f"{it.id}151", amount=151) for it in lines)]
    for more, said, accepted in ((others, lines, False), (beside, aside, True)):
        named = [replace(item, id=f"{at}", tie=f"{at}") for at, item in enumerate(more)]
        found = run([MINE, *named], [line, *said], rules).matches
        [mine] = [match for match in found if match.ends == (frozenset({"mine"}), frozenset({"x"}))]
        assert (mine.auto, dict(mine.levels)["line"]) == (
            accepted,
            LineLevel.BOOKED if accepted else LineLevel.DIFFERS_BY_OTHER,
        )


NOTE = Item("note", 100, direction=-1, reference="CN-2026-0003", name="Bolt Works", iban=ALPHA)
LESS = Line("x", 4_850, text="INV-2026-0099 less CN-2026-0003", name="Bolt Works", iban=ALPHA)


@pytest.mark.parametrize(
    ("items", "closed", "doubtful"),
    [
        pytest.param([], [NOTE], True, id="a credit note that was used already"),
        pytest.param([NOTE], [], True, id="one of another amount"),
        pytest.param([replace(NOTE, currency="USD", direction=1)], [], True, id="an invoice in USD"),
        pytest.param([], [replace(NOTE, name="Ada Lovelace", iban=BETA)], False, id="somebody else's"),
        pytest.param([], [], False, id="what nobody knows"),
    ],
)
def test_what_is_quoted_beside_a_near_amount_may_be_the_difference(
    items: list[Item], closed: list[Item], *, doubtful: bool
) -> None:
    rules = replace(RULES, fee_tolerance_minor=500)
    [match] = run([MINE, *items], [LESS], rules, closed=closed).matches
    told = (dict(match.levels)["line"], match.status, match.auto)
    assert told == (
        (LineLevel.QUOTES_OTHER, Uniqueness.CONTESTED, False)
        if doubtful
        else (LineLevel.BOOKED, Uniqueness.UNIQUE, True)
    )
    # What pays its item to the minor unit pays nothing else.
    assert run([MINE, *items], [replace(LESS, amount=5_000)], rules, closed=closed).matches[0].auto
    # Nor is the sum of several that it pays nearly a fee less.
    more = replace(MINE, id="more", reference="INV-2026-0098")
    both = replace(LESS, amount=9_850, text=f"INV-2026-0098 {LESS.text}")
    assert [match.auto for match in run([MINE, more, *items], [both], rules, closed=closed).matches] == [not doubtful]


@pytest.mark.parametrize(
    ("items", "line", "closed"),
    [
        pytest.param([MINE], QUOTES, replace(PAID, name="Ada Lovelace", iban=BETA), id="it was somebody else's"),
        pytest.param([MINE], QUOTES, replace(PAID, reference="Rent"), id="its reference is no number"),
        pytest.param([MINE], replace(QUOTES, total=9_000), PAID, id="a part of the payment has paid it"),
        pytest.param(
            [MINE], replace(QUOTES, text="INV-2026-0099 INV-2026-0052"), PAID, id="the open one is quoted too"
        ),
        pytest.param([replace(MINE, reference="INV-2026-0052")], QUOTES, PAID, id="the open one is called so, too"),
        pytest.param(
            [MINE, replace(MINE, id="more", reference="INV-2026-0052", amount=90_000)],
            QUOTES,
            PAID,
            id="another open one is called so",
        ),
    ],
)
def test_what_is_paid_is_of_no_matter_to_others(items: list[Item], line: Line, closed: Item) -> None:
    assert run(items, [line], RULES, closed=[closed]).matches == run(items, [line], RULES).matches


def test_what_very_many_had_is_the_number_of_none_of_them() -> None:
    line = replace(QUOTES, name=None)
    paid = [replace(PAID, id=f"p{at}", name=f"Payer {at}", iban=None) for at in range(KEY_ITEMS_MAX + 1)]
    assert [run([MINE], [line], RULES, closed=those).matches[0].auto for those in (paid[1:], paid)] == [False, True]
