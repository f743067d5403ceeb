"""Whether the adjustments of a stored match are what its amounts and its rate make them, written a second time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from payrec.domain.fx_rates import FxRateError, converted, parse_derived_rate
from payrec.domain.matching.rules import AmountLevel, GroupLevel, Level
from payrec.domain.money import exponent, format_minor
from payrec.services.match_checks import Check, Row, check
from payrec.services.match_ends import side_of, taken_of

_ON_ITEM: Final = frozenset({"fee", "discount", "write_off", "withholding_tax", "bank_charge", "deduction"})
"""Types that are of what is expected. An exchange is of what is settled: money of another account as well."""

_LISTED: Final = frozenset({"deduction", "discount"})
"""What the payer's advice may say of an item."""

_Key = tuple[str, str]
"""The side of a transaction and its id."""

_ON_LINE: Final = frozenset({"over_payment"})
_SETTLED_WHOLE: Final = frozenset({AmountLevel.BAND, AmountLevel.TOLERANCE})
_ROUNDED_MINOR: Final = 5
_FEE_UNITS: Final = 25
_KEPT_SHARE: Final = 10


def adjustments(row: Row, levels: Mapping[str, Level]) -> Check:
    """Compute the adjustments of a match again: on which transaction, of which type, and at which rate."""
    found = row["adjustments"] or []
    currencies = {(taken.name, str(taken.transaction_id)): taken.currency for taken in taken_of(row)}
    faults = [fault for stored in found for fault in _faults(stored, currencies, row)]
    crossing = [leg for leg in row["legs"] if leg["incoming_currency"] != leg["expected_currency"]]
    rates = [((stored["side"], stored["id"]), stored["rate"]) for stored in found if stored["type"] == "fx"]
    if crossing or rates:
        faults += _exchanges(crossing, rates)
    elif levels.get("group", 0) == GroupLevel.BY_ADVICE:
        faults += [f"nobody lists a {stored['type']}" for stored in found if stored["type"] not in _LISTED]
    elif levels.get("group", 0) == GroupLevel.BY_KEY_NET:
        faults += _kept(row, found)
    elif found and len(row["legs"]) == 1 and row["levels"] is not None and not faults:
        faults += _type(row, AmountLevel(levels.get("amount", 0)))
    told = ", ".join(f"{s['type']} {format_minor(s['minor'], s['currency'])} {s['currency']}" for s in found)
    return check("adjustments", faults, told or "there are none")


def _faults(stored: Mapping[str, Any], currencies: Mapping[tuple[str, str], str], row: Row) -> list[str]:
    kind, side = stored["type"], stored["side"]
    faults = []
    if currencies.get((side, stored["id"])) != stored["currency"]:
        faults.append(f"the {kind} is not on a transaction of the match, or not in its currency")
    if (kind in _ON_ITEM and side != "expected") or (kind in _ON_LINE and side != "incoming"):
        faults.append(f"the {kind} is on the {side} transaction")
    if kind != "fx" and (stored["minor"] == 0 or (stored["minor"] < 0 and row["levels"] is not None)):
        faults.append(f"the {kind} settles nothing")
    return faults


def _kept(row: Row, found: list[Mapping[str, Any]]) -> list[str]:
    """Say what a payment service cannot have kept of a batch."""
    faults = [f"a payment service keeps no {stored['type']}" for stored in found if stored["type"] != "fee"]
    kept = sum(stored["minor"] for stored in found)
    of_items = {leg["expected_id"]: 0 for leg in row["legs"]}
    for leg in row["legs"]:
        of_items[leg["expected_id"]] += leg["settled_minor"]
    collected = sum(of_items.values()) + kept
    if not 0 < kept <= collected // _KEPT_SHARE:
        faults.append(f"{kept} minor units of {collected} are no fee")
    return faults


def _exchanges(crossing: list[Row], rates: list[tuple[_Key, str]]) -> list[str]:
    """Convert each leg at the rate of what it settles, which has one, however many legs settle it."""
    settled = [(side_of(leg, "expected").name.lower(), str(leg["expected_id"])) for leg in crossing]
    of_key = dict(rates)
    if len(of_key) != len(rates) or of_key.keys() != set(settled):
        return [f"{len(set(settled))} transactions are settled in another currency, and {len(rates)} rates are stored"]
    return [fault for key, leg in zip(settled, crossing, strict=True) for fault in _exchange(leg, of_key[key])]


def _exchange(leg: Row, rate: str | None) -> list[str]:
    """Convert the line's amount at the stored rate."""
    try:
        settled = converted(
            leg["amount_minor"], leg["incoming_currency"], parse_derived_rate(rate or ""), leg["expected_currency"]
        )
    except FxRateError as error:
        return [f"the rate cannot be used: {error}"]
    if settled != leg["settled_minor"]:
        told, stored = (format_minor(minor, leg["expected_currency"]) for minor in (settled, leg["settled_minor"]))
        return [f"at {rate} the leg settles {told}, but {stored} is stored"]
    return []


def _type(row: Row, level: AmountLevel) -> list[str]:
    """Tell of a pair's difference what it can be."""
    leg, stored = row["legs"][0], row["adjustments"][0]
    if len(row["adjustments"]) > 1:
        return ["a pair has one difference at most"]
    asked = leg["settled_minor"] + (stored["minor"] if stored["side"] == "expected" else 0)
    paid = leg["amount_minor"] + (stored["minor"] if stored["side"] == "incoming" else 0)
    unit = 10 ** exponent(leg["expected_currency"])
    gap = abs(asked - paid)
    short = paid < asked
    if level is AmountLevel.TERM:
        wanted = {"discount"}
    elif (gap <= _ROUNDED_MINOR or (gap < unit and paid % unit == 0)) and gap <= asked // 10:
        wanted = {"rounding"}
    elif not short:
        wanted = {"over_payment"} if gap <= asked // 5 or level in _SETTLED_WHOLE else set()
    elif level is AmountLevel.BAND:
        wanted = {"discount"}
    elif gap <= asked // 100 * 3 or gap <= min(_FEE_UNITS * unit, asked // 10):
        wanted = {"fee"}
    elif level is AmountLevel.TOLERANCE:
        # Which of the two depends on a setting of then.
        wanted = {"fee", "write_off"}
    else:
        wanted = set()
    if stored["type"] in wanted:
        return []
    told = format_minor(gap, leg["expected_currency"])
    way = "less" if short else "more"
    return [f"{told} {way} than asked is {' or '.join(sorted(wanted)) or 'no adjustment'}, not {stored['type']}"]
