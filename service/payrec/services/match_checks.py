"""What a stored match rests on, computed once more from what is stored: each check on its own, none of them reads.

The rules are written here a second time, and not taken from the engine: a check that asked the engine whether it was
right would always hear yes. Rows are those of ``MatchStore``, with the keys of their texts made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from payrec.domain.matching.digits import is_alike, is_of_other_period
from payrec.domain.matching.keys import ExpectedKeys, IncomingKeys, expected_keys, incoming_keys, is_proving
from payrec.domain.matching.provable import PROVABLE, PROVED_PPM_MAX
from payrec.domain.matching.rules import (
    ENGINE_VERSION,
    FEATURES,
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    GroupLevel,
    Level,
    LineLevel,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
    Uniqueness,
)
from payrec.domain.matching.weights import PRIOR_WEIGHT, weight_of
from payrec.domain.money import format_minor
from payrec.domain.principal import ENGINE_ACTOR_PREFIX
from payrec.services.match_ends import ENDS, taken_of

Row = Mapping[str, Any]

PARTIES: Final = ("account", "name", "own_account")
"""Features that tell who is at either end."""
_OF_NOTE: Final = (*PARTIES, "end_to_end_id", "group_key", "revision", "revision_now")
"""What is told of a credit note at the end of the line."""

_KINDS: Final = {"one_to_one": (False, False), "one_to_many": (True, False), "many_to_one": (False, True)}
"""Whether there are several items, and several lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at again."""

    name: str
    holds: bool
    detail: str
    """What was found, or what does not hold."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A leg with the keys of both of its rows."""

    leg: Row
    expected: ExpectedKeys
    incoming: IncomingKeys
    unnamed: bool = False
    """Whether it is a credit note of which nobody says that the line names it."""

    @property
    def changed(self) -> bool:
        """Whether one of its rows is not what the match was made for."""
        return any(self.leg[f"{side}_revision"] != self.leg[f"{side}_revision_now"] for side, _ in ENDS)

    def quotes(self, key: int | None, *, proving: bool) -> bool:
        """Tell whether the line quotes a key, of a text that could prove or of one that could not."""
        quoted = {*self.incoming.reference_keys, self.incoming.end_to_end_key}
        return key is not None and key in quoted and is_proving(key) == proving

    @property
    def proves(self) -> bool:
        """Whether the line quotes the item's reference or end-to-end id in full."""
        return any(self.quotes(k, proving=True) for k in (self.expected.reference_key, self.expected.end_to_end_key))

    @property
    def hints(self) -> bool:
        """Whether the line quotes the item's reference or end-to-end id, by what is too short to prove anything."""
        return self.partly_quotes or self.quotes(self.expected.end_to_end_key, proving=False)

    @property
    def partly_quotes(self) -> bool:
        """Whether the line quotes a reference that is too short to prove anything, or has its digits in a list."""
        listed = self.expected.reference_digits in (self.incoming.series_digits or ())
        return listed or self.quotes(self.expected.reference_key, proving=False)

    @property
    def nearly_quotes(self) -> bool:
        """Whether the line quotes a part of the item's reference, or the reference but for a digit."""
        asked = self.expected.reference_digits
        return asked is not None and any(is_alike(asked, quoted) for quoted in self.incoming.quoted_digits or ())

    @property
    def of_other_period(self) -> bool:
        """Whether the line names a period, and quotes neither the item nor its period."""
        asked, said = self.expected.reference_digits, self.incoming.quoted_digits or ()
        return not self.proves and is_of_other_period(asked, said)

    @property
    def in_batch(self) -> bool:
        """Whether the line has or quotes the item's group id."""
        key = self.expected.group_key
        return key is not None and key in {self.incoming.group_key, *self.incoming.reference_keys}


def check(name: str, faults: list[str], found: str) -> Check:
    """Return a check that holds when nothing is wrong."""
    return Check(name=name, holds=not faults, detail="; ".join(faults) or found)


def joined(leg: Row) -> Joined:
    """Return a leg with keys made of the texts that its rows have now."""
    return Joined(
        leg,
        expected_keys(
            reference=leg["reference"],
            end_to_end_id=leg["expected_end_to_end_id"],
            counterparty_name=leg["expected_name"],
            counterparty_account=leg["expected_account"],
            account=leg["expected_own_account"],
            group=leg["expected_group_key"],
        ),
        incoming_keys(
            remittance=leg["remittance"],
            structured_reference=leg["structured_reference"],
            end_to_end_id=leg["incoming_end_to_end_id"],
            counterparty_name=leg["incoming_name"],
            counterparty_account=leg["incoming_account"],
            account=leg["incoming_own_account"],
            group=leg["incoming_group_key"],
            ultimate_counterparty_name=leg["incoming_ultimate_name"],
        ),
    )


def joined_legs(row: Row, level: GroupLevel) -> list[Joined]:
    """Return the legs of a match; where an item and a credit note settle each other, the note beside the line."""
    line = next((leg for leg in row["legs"] if not leg["expected_contra"] and not leg["incoming_contra"]), None)
    if line is None:
        return [joined(leg) for leg in row["legs"]]
    unnamed = level is GroupLevel.BY_CREDIT_NOTES
    return [
        replace(joined(_noted(leg, line)), unnamed=unnamed) if leg["incoming_contra"] else joined(leg)
        for leg in row["legs"]
    ]


def _noted(leg: Row, line: Row) -> Row:
    """Return the credit note of a leg as the item of a line's leg."""
    return {
        **line,
        "reference": leg["structured_reference"],
        **{f"expected_{name}": leg[f"incoming_{name}"] for name in _OF_NOTE},
        "due_on": leg["booking_on"],
        "expected_from_on": None,
        "expected_to_on": None,
    }


def levels_of(row: Row) -> tuple[dict[str, Level], Check]:
    """Return the levels by feature, silent ones included, and whether what is stored can be read at all."""
    stored = row["levels"] or []
    # A match of an earlier engine has fewer features: it is silent on the others.
    padded = [*stored, *[0] * (len(FEATURES) - len(stored))]
    faults, levels = [], {}
    if len(stored) > len(FEATURES):
        faults.append(f"{len(stored)} levels are stored, {len(FEATURES)} features are known")
    for (feature, kind), number in zip(FEATURES.items(), padded, strict=False):
        if number in set(kind):
            levels[feature] = kind(number)
        else:
            faults.append(f"level {number} of {feature} is not known")
    for name, known in (("uniqueness", Uniqueness), ("confidence", Confidence)):
        if row[name].upper() not in known.__members__:
            faults.append(f"{name} {row[name]} is not known")
    missing = [leg[f"{side}_id"] for leg in row["legs"] for side, _ in ENDS if leg[f"{side}_revision_now"] is None]
    faults += [f"there is no transaction {transaction_id}" for transaction_id in missing]
    if not row["legs"]:
        faults.append("it joins nothing")
    return levels, check("stored", faults, f"{sum(n != 0 for n in padded)} of {len(FEATURES)} features say something")


def score(row: Row, levels: Mapping[str, Level]) -> Check:
    """Add up the weights."""
    total = PRIOR_WEIGHT + sum(weight_of(feature, level, row["corrections"]) for feature, level in levels.items())
    faults = []
    if total != row["score"]:
        faults.append(f"prior and weights are {total / 1000:+.1f}, but {row['score'] / 1000:+.1f} is stored")
        made_by = row["created_by"].removeprefix(ENGINE_ACTOR_PREFIX).partition("+")[0]
        if made_by != ENGINE_VERSION:
            faults.append(f"it was made by engine {made_by}, and the weights are those of engine {ENGINE_VERSION}")
    return check("score", faults, f"prior and weights are {total / 1000:+.1f}, as stored")


def confidence(row: Row, levels: Mapping[str, Level]) -> Check:
    """Apply the rule of confidence, and that of what may be accepted without a person."""
    status = Uniqueness[row["uniqueness"].upper()]
    stored = Confidence[row["confidence"].upper()]
    group = GroupLevel(levels["group"])
    threshold = row["threshold_milli"]
    certified = threshold is not None and row["score"] >= threshold
    pair = group is GroupLevel.UNKNOWN
    least, most = _of_pair(levels, status, certified=certified) if pair else _of_group(group, status, row, levels)
    faults = []
    if not least <= stored <= most:
        told = most.name.lower() if least is most else f"at most {most.name.lower()}"
        faults.append(f"evidence that is {status.name.lower()} makes it {told}, but {stored.name.lower()} is stored")
    alone = row["decided_by"] is not None and row["decided_by"].startswith(ENGINE_ACTOR_PREFIX)
    if alone and not _acceptable(levels, stored):
        faults.append("it was accepted without a person, which its evidence does not allow")
    who = ", accepted without a person as the rules allow" if alone else ""
    return check("confidence", faults, f"{stored.name.lower()}, as {status.name.lower()} evidence of this kind is{who}")


def _of_pair(levels: Mapping[str, Level], status: Uniqueness, *, certified: bool) -> tuple[Confidence, Confidence]:
    """Return the least and the greatest confidence of a pair: whether settings let in what is certified is not kept."""
    proof = levels["reference"] == ReferenceLevel.FULL or levels["end_to_end"] == EndToEndLevel.EQUAL
    hint = levels["reference"] >= ReferenceLevel.COMMON or levels["end_to_end"] >= EndToEndLevel.EQUAL
    payer = levels["account"] == PartyLevel.EQUAL or levels["name"] in {NameLevel.EQUAL, NameLevel.ULTIMATE}
    sure = status is Uniqueness.UNIQUE and levels["amount"] in _EQUAL
    # A name that is like the item's, or that the text has, says something, too, and makes nobody sure.
    text = proof or hint or payer or levels["name"] > PartyLevel.EQUAL
    if status is Uniqueness.AMBIGUOUS or levels["line"] == LineLevel.DUPLICATE or not text:
        found = Confidence.LOW
    elif proof and sure:
        found = Confidence.EXACT
    elif payer and sure and levels["date"] in _TIMELY:
        found = Confidence.HIGH
    else:
        safe = certified and sure and levels["date"] in _TIMELY
        return Confidence.MEDIUM, Confidence.HIGH if safe else Confidence.MEDIUM
    return found, found


_TIMELY: Final = frozenset({DateLevel.UNKNOWN, DateLevel.NEAR, DateLevel.CLOSE})
_EQUAL: Final = frozenset({AmountLevel.EQUAL, AmountLevel.TOLERANCE, AmountLevel.BAND, AmountLevel.TERM})
_SEARCHED: Final = frozenset({GroupLevel.BY_SOME_REFERENCES, GroupLevel.BY_SOME_INSTALMENTS, GroupLevel.BY_QUOTES})


def _of_group(
    level: GroupLevel, status: Uniqueness, row: Row, levels: Mapping[str, Level]
) -> tuple[Confidence, Confidence]:
    """Return the least and the greatest confidence of a group."""
    if status is Uniqueness.AMBIGUOUS:
        return Confidence.LOW, Confidence.LOW
    if level in PROVABLE and status is Uniqueness.UNIQUE and _beyond_chance(row):
        # What else its counterparty owes is not kept, and may have made it less.
        return Confidence.LOW, Confidence.HIGH
    if not level.proves and level not in _SEARCHED:
        # Nobody named the set: whatever else is known of it, it is never more than this.
        return Confidence.LOW, Confidence.MEDIUM
    if status is not Uniqueness.UNIQUE or levels["amount"] not in _EQUAL:
        return Confidence.MEDIUM, Confidence.MEDIUM
    found = Confidence.EXACT if level.proves else Confidence.HIGH
    return found, found


def _beyond_chance(row: Row) -> bool:
    """Tell whether the record of how a group was found says that its sum is none that chance makes."""
    chance = (row["proof"] or {}).get("coincidencesPpm")
    return isinstance(chance, int) and chance <= PROVED_PPM_MAX


def _acceptable(levels: Mapping[str, Level], stored: Confidence) -> bool:
    group = GroupLevel(levels["group"])
    alone = group is GroupLevel.UNKNOWN or group in PROVABLE
    enough = stored >= Confidence.HIGH if alone else group.proves and stored is Confidence.EXACT
    return enough and levels["amount"] in _EQUAL and levels["line"] == LineLevel.BOOKED


def sums(row: Row, levels: Mapping[str, Level]) -> Check:
    """Add up the legs at either end, and compare them with the match and with the amounts of its transactions."""
    legs, faults, told = row["legs"], [], []
    for end, amount in ENDS:
        totals: Counter[str] = Counter()
        for leg in legs:
            totals[leg[f"{end}_currency"]] += leg[amount]
        total = ", ".join(_money(minor, currency) for currency, minor in totals.items())
        told.append(f"{total} of {len({leg[f'{end}_id'] for leg in legs})} {end}")
        if totals.keys() == {row["currency"]} and totals[row["currency"]] != row["amount_minor"]:
            faults.append(f"the {end} legs are {total}, not the match's {_amount(row)}")
        # Items of several currencies may be paid at once, each at a rate of its own.
        if end == "incoming" and len(totals) > 1:
            faults.append(f"the {end} legs are of several currencies")
    if any(leg["settled_currency"] != leg["expected_currency"] for leg in legs):
        faults.append("a leg is in another currency than its expected transaction")
    same = [leg for leg in legs if leg["settled_currency"] == leg["incoming_currency"]]
    if any(leg["settled_minor"] != leg["amount_minor"] for leg in same):
        faults.append("a leg settles another amount than it takes")
    several = tuple(len({leg[f"{end}_id"] for leg in legs}) > 1 for end, _ in ENDS)
    if _KINDS.get(row["kind"], several) != several:
        faults.append(f"its legs do not make it {row['kind']}")
    for taken in taken_of(row):
        left = _money(taken.left_minor, taken.currency)
        what = f"{taken.name} {taken.transaction_id}"
        if taken.minor > taken.whole_minor:
            faults.append(f"{what} has {_money(taken.whole_minor, taken.currency)} only")
        elif row["status"] == "proposed" and taken.minor > taken.left_minor:
            faults.append(f"of {what} only {left} is left")
        elif row["status"] == "proposed" and _whole(row, levels, taken.end) and taken.minor != taken.left_minor:
            faults.append(f"{what} has {left} left, and not all is matched")
    return check("sums", faults, f"{' and '.join(told)} to the minor unit")


def _whole(row: Row, levels: Mapping[str, Level], end: str) -> bool:
    """Tell whether all that is open of an end's transactions is matched, as the level of the amount has it."""
    both = {name for name, _ in ENDS}
    if levels.get("group", 0) == GroupLevel.BY_ADVICE:
        # Of an item the advice may list a part.
        return end == "incoming"
    sides = {AmountLevel.EQUAL: both, AmountLevel.SMALLER: {"incoming"}, AmountLevel.LARGER: {"expected"}}
    level = AmountLevel(levels.get("amount", 0))
    if level is AmountLevel.SMALLER and any(leg["expected_contra"] or leg["incoming_contra"] for leg in row["legs"]):
        # Of two of one side, the smaller may stand at either end.
        smallest = min(row["legs"][0][f"{name}_left_minor"] for name, _ in ENDS)
        return bool(row["legs"][0][f"{end}_left_minor"] == smallest)
    return end in (both if row["adjustments"] else sides.get(level, set()))


def rules(row: Row) -> Check:
    """Tell which rules have bounded the proposal; only a run's proposal is bounded by any."""
    names = row["proof"]["rules"]
    by_run = row["created_by"].startswith(ENGINE_ACTOR_PREFIX) and row["run_id"] is not None
    faults = [] if by_run else [f"no run has made it, though the rules {', '.join(names)} are named"]
    return check("rules", faults, f"proposed within the bounds of {', '.join(names)}, as its run found them")


def allocations(row: Row, standing: Mapping[tuple[int, UUID], tuple[int, int]]) -> Check:
    """Compare what is allocated with what counts: ``standing`` has, by side and id, all matches', and this one's."""
    faults = []
    has_amounts = row["status"] in {"accepted", "pending_approval"}
    everything = taken_of(row)
    for taken in everything:
        counted, own = standing.get((taken.side, taken.transaction_id), (0, 0))
        what = f"{taken.name} {taken.transaction_id}"
        if taken.allocated_minor != counted:
            allocated = _money(taken.allocated_minor, taken.currency)
            faults.append(f"{allocated} of {what} is allocated, legs are {_money(counted, taken.currency)}")
        if own != (taken.minor if has_amounts else 0):
            told = "do not count" if has_amounts else "count"
            faults.append(f"the legs of {what} {told}, though the match is {row['status']}")
    holds = "holds all of it" if has_amounts else "holds nothing, as it is " + row["status"]
    found = f"{len(everything)} transactions have allocated what legs say; this match {holds}"
    return check("allocations", faults, found)


def _money(minor: int, currency: str) -> str:
    return f"{format_minor(minor, currency)} {currency}"


def _amount(row: Row) -> str:
    return _money(row["amount_minor"], row["currency"])
