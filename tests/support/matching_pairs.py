"""Items and lines that share what they have, drawn for properties of single pairs."""

from __future__ import annotations

from hypothesis import strategies as st

from payrec.domain.matching.keys import account_key, name_key
from payrec.domain.matching.line_rules import Bounds, LineRule, Required, Scope
from payrec.domain.matching.rules import MatchingRules
from support.matching_frames import Item, Line

_REFERENCES = st.sampled_from([None, "INV-10001", "INV-10002", "RENT", "4711"])
_PARTIES = st.sampled_from([None, "DE1", "DE2"])
_NAMES = st.sampled_from([None, "Alpha", "Beta"])
_WORDS = st.sampled_from(["INV-10001", "INV-10002", "RENT", "4711", "Alpha"])
_AMOUNTS = st.sampled_from([1, 100, 101, 200, 300])
_DAYS = st.sampled_from([None, 20_500, 20_569, 20_570, 20_600, 20_604, 20_615, 20_661, 20_800])
_IDS = st.sampled_from([None, "E2E-0001", "E2E"])

_TERMS = st.sampled_from([(), (), ((100, 20_604),), ((101, 20_500), (100, 20_800))])

_SCOPES = st.sampled_from(
    [
        Scope(own_account_key=account_key("DE1")),
        Scope(direction=-1),
        Scope(currency="USD", minor_max=101),
        Scope(account_key=account_key("DE2")),
        Scope(name_key=name_key("Alpha")),
    ]
)

_BOUNDS = st.builds(
    Bounds,
    amount_tolerance_minor=st.sampled_from([0, 100]),
    amount_tolerance_basis_points=st.sampled_from([0, 100]),
    fee_tolerance_minor=st.sampled_from([0, 20]),
    required=st.sampled_from(list(Required)),
    date_window_days_after=st.sampled_from([0, 10, 60]),
)

RULES_DRAWN = st.builds(
    MatchingRules,
    line_rules=st.lists(st.builds(LineRule, name=st.just("r"), scope=_SCOPES, bounds=_BOUNDS), max_size=2).map(tuple),
    amount_tolerance_minor=st.sampled_from([0, 1]),
    amount_tolerance_basis_points=st.sampled_from([0, 100, 5_000]),
    required=st.sampled_from([Required.NOTHING, Required.REFERENCE]),
    date_window_days_before=st.sampled_from([0, 30]),
)


@st.composite
def sides_drawn(draw: st.DrawFn) -> tuple[list[Item], list[Line]]:
    """Draw at most five items and lines; no key is on more of them than a run looks at."""
    items = [
        Item(
            f"e{at}",
            amount=draw(_AMOUNTS),
            total=draw(st.sampled_from([None, 400])),
            currency=draw(st.sampled_from(["EUR", "USD"])),
            direction=draw(st.sampled_from([1, -1])),
            due=draw(_DAYS),
            span=draw(st.sampled_from([(None, None), (20_590, 20_610), (None, 20_610)])),
            band=draw(st.sampled_from([(None, None), (90, 210), (None, 250)])),
            reference=draw(_REFERENCES),
            end_to_end_id=draw(_IDS),
            iban=draw(_PARTIES),
            name=draw(_NAMES),
            account=draw(_PARTIES),
            terms=draw(_TERMS),
        )
        for at in range(draw(st.integers(0, 5)))
    ]
    lines = [
        Line(
            f"i{at}",
            amount=draw(_AMOUNTS),
            currency=draw(st.sampled_from(["EUR", "USD"])),
            direction=draw(st.sampled_from([1, -1])),
            day=draw(_DAYS),
            ultimate=draw(_NAMES),
            text=" ".join(draw(st.lists(_WORDS, max_size=2, unique=True))),
            end_to_end_id=draw(_IDS),
            iban=draw(_PARTIES),
            name=draw(_NAMES),
            account=draw(_PARTIES),
            pending=draw(st.booleans()),
            duplicate=draw(st.sampled_from([False, False, True])),
        )
        for at in range(draw(st.integers(0, 5)))
    ]
    return items, lines
