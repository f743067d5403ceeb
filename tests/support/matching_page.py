"""The parts of the page on matching that are made from the engine: its tables, and what it says to the examples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from payrec.domain.matching import rules
from payrec.domain.matching.weights import PRIOR_WEIGHT, WEIGHTS
from payrec.domain.money import format_minor, parse_decimal
from support.matching_example import Example, Row
from support.matching_world import World

PAGE: Final = Path(__file__).parents[2] / "service" / "matching.md"

FEATURE_WORDS: Final = {
    "reference": "The item's reference",
    "end_to_end": "The end-to-end id",
    "amount": "The amount",
    "date": "The date",
    "account": "The counterparty's account",
    "name": "The counterparty's name",
    "own_account": "The own account",
    "line": "The payment",
    "group": "The group",
}

LEVEL_WORDS: Final = {
    "reference": {
        "ABSENT": "is not among what the payment quotes",
        "COMMON": "is quoted, but too many open items have it",
        "PARTIAL": "is quoted, but too short to prove anything, or by its digits in a list",
        "FULL": "is quoted in full",
        "NEAR": "is quoted in part or with a digit mistaken, beside an equal amount",
    },
    "end_to_end": {
        "DIFFERENT": "differs",
        "EQUAL": "is the same",
        "PARTIAL": "is the same, but too short to prove anything",
    },
    "amount": {
        "EQUAL": "is equal",
        "TOLERANCE": "differs within the tolerance that is set",
        "BAND": "lies within the limits that the item names",
        "SMALLER": "is less than what is open",
        "LARGER": "is more than what is open",
        "CONVERTED": "is in another currency, and at the rate of about the day nearly what is open",
        "TERM": "is what one of the item's terms asks for, in time",
    },
    "date": {
        "NEAR": f"is at most {rules.NEAR_DAYS} days beside the due date",
        "CLOSE": f"is at most {rules.CLOSE_DAYS} days after it or {rules.CLOSE_EARLY_DAYS} before",
        "WITHIN": "is further away, but within the date window",
        "OUTSIDE": "is outside of the date window: never proposed",
    },
    "account": {"DIFFERENT": "differs", "EQUAL": "is the same"},
    "name": {
        "DIFFERENT": "differs",
        "EQUAL": "is the same, whatever the order of its words and its legal form",
        "SIMILAR": "resembles it, abbreviated, cut or mistyped",
        "ALIAS": "was matched with it before, and means it since",
        "TEXT": "is not there, and the payment's text names the item's, and nobody else's",
        "ULTIMATE": "is another, and says on whose behalf it pays: the item's",
    },
    "own_account": {"DIFFERENT": "is another one than expected", "EQUAL": "is the expected one"},
    "line": {
        "BOOKED": "is booked",
        "PENDING": "is announced and not booked yet",
        "DUPLICATE": "repeats an earlier one",
        "QUOTES_OTHER": "quotes in full something else of its counterparty that it cannot pay, or that is paid",
        "OF_ANOTHER": "comes from another one's account, goes out to one, or is paid on his behalf",
        "DIFFERS_BY_OTHER": "differs within a tolerance, and has or differs by just the amount of something else",
        "OF_OTHER_PERIOD": "names another period than the item's reference",
        "RIVAL_SETTLED": "was seen with the item by a run that has settled another one that fitted as well",
        "OTHER_NUMBER": "quotes not the item's number, but another one that is built like it",
        "OF_ANYBODY": "names the period that the item's reference says and nothing else, and nobody who pays",
    },
    "group": {
        "BY_KEY": "is all that is open of a group id which the payment names",
        "BY_REFERENCES": "is all items that the payment quotes",
        "BY_INSTALMENTS": "is all payments that quote the item",
        "BY_SOME_REFERENCES": "is the only set that sums up among the items that the payment quotes",
        "BY_SOME_INSTALMENTS": "is the only set that sums up among the payments that quote the item",
        "BY_RUN": "is items of the counterparty that are due one after the other",
        "BY_RUN_MINUS": "is such a run without one or two of its items",
        "BY_FEW": "is two or three of the few open items of the counterparty",
        "BY_EQUAL_PARTS": "is equal payments of the item's counterparty",
        "BY_QUOTES": "is all items of its counterparty that the payment quotes, some by a few characters",
        "BY_ADVICE": "is what the payer's remittance advice lists",
        "BY_REFERENCES_LESS": "is all items less all credit notes that the payment quotes",
        "BY_KEY_LESS": "is all that is open of such a group id, less its credit notes",
        "BY_CREDIT_NOTES": "is all items that the payment quotes, less the only credit notes of theirs that fit",
        "BY_UNNAMED_PARTS": "is equal payments, some of nobody in particular, at least half of the item's counterparty",
        "BY_REFERENCES_AND_ONE": "is all items that the payment quotes and the only other one that is the rest",
        "BY_REFERENCES_AND_MORE": "is all items that the payment quotes and the only set of others that is the rest",
        "BY_KEY_NET": "is all that is open of such a group id, less its credit notes and less what was kept of it",
    },
}
"""What each level means to a reader, by the feature. The silent level 0 is not told."""

NUMBERS: Final = (
    ("Days before the due date in which a payment may be booked", "30, a setting", "date_window_days_before"),
    ("Days after it", "60, a setting", "date_window_days_after"),
    ("Transactions in a group that quoted references hold together", "50, a setting", "group_size_max"),
    ("Items that one group id may hold together", "10,000", "GROUP_LEGS_MAX"),
    ("Transactions among which all sets are tried", "12", "SUBSET_MEMBERS_MAX"),
    ("Open items that may share a reference, a name or an account with amount", "12", "KEY_ITEMS_MAX"),
    ("Open items that the references of one payment may bring", "64", "LINE_CANDIDATES_MAX"),
    ("Candidates on either side of a proposal by amount and date alone", "3", "RESIDUAL_CANDIDATES_MAX"),
    ("Alternatives that are kept on either side", "5", "ALTERNATIVES_MAX"),
)
"""What is counted, how it is written, and where the number is."""

_ROWS_SHOWN: Final = 5


def numbers() -> str:
    """Return the table of bounds."""
    defaults = rules.MatchingRules()
    rows = []
    for words, written, name in NUMBERS:
        value = getattr(rules, name, None) or getattr(defaults, name)
        assert written.partition(", a ")[0] == f"{value:,}", f"the page says {written} of {name}, which is {value:,}"
        rows.append((words, written))
    return _table(("Bound", ""), rows)


def weights() -> str:
    """Return the table of weights.

    Raises
    ------
    AssertionError
        A feature or a level has no words: it would be missing on the page.
    """
    rows = [("Before anything is known", "", _points(PRIOR_WEIGHT))]
    for feature, kind in rules.FEATURES.items():
        words = LEVEL_WORDS.get(feature, {})
        levels = {level.name: level for level in kind if level != 0}
        unsaid = levels.keys() - words.keys()
        assert not unsaid, f"the feature {feature} has no words in {Path(__file__).name} for {sorted(unsaid)}"
        gone = words.keys() - levels.keys()
        assert not gone, f"there are words for levels of {feature} that there are not: {sorted(gone)}"
        for at, (name, level) in enumerate(levels.items()):
            weight = WEIGHTS[feature][level]
            rows.append((FEATURE_WORDS[feature] if at == 0 else "", words[name], _points(weight)))
    return _table(("Evidence", "what is found", "weight"), rows)


def _points(milli: int) -> str:
    return f"{milli / 1000:+.1f}" if milli else "0"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("  ", " ") for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of an example."""

    matches: list[dict[str, Any]]
    expected: list[dict[str, Any]]
    incoming: list[dict[str, Any]]
    block: str
    """As it stands on the page."""


async def told(world: World, example: Example) -> Told:
    """Store the rows of an example in an empty world, run matching, and tell what comes of it."""
    await world.set(autoAccept=True, autoAcceptMinConfidence="high", **example.settings)
    for rate in example.rates:
        await world.rate(*rate)
    items = [await world.expect(**row) for row in example.expected]
    for advice in example.advices:
        answer = await world.tenant.post("/remittance-advices", {"currency": "EUR", **advice})
        assert answer.status_code == 201, answer.text
    if example.uploaded:
        for row in example.incoming:
            await world.upload([{"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", **row}])
        page = await world.tenant.get("/incoming-transactions", params={"sort": "createdAt"})
        lines = [row["id"] for row in page.json()["data"]]
    else:
        lines = [await world.receive(**row) for row in example.incoming]
    await world.run()
    matches = await world.matches()
    # Ids are the order of arrival, and content decides which of several proposals comes first on the page.
    matches.sort(key=lambda match: (match["amountMinor"], match["explanation"]))
    expected = [await world.expected(item) for item in items]
    incoming = [await world.incoming(line) for line in lines]
    return Told(
        matches=matches, expected=expected, incoming=incoming, block=_block(example, matches, expected, incoming)
    )


def _block(
    example: Example, matches: list[dict[str, Any]], expected: list[dict[str, Any]], incoming: list[dict[str, Any]]
) -> str:
    titles = ("", "amount", "date", "counterparty", "says", "stays open")
    rows = [*_sides("expected", expected), *_sides("paid", incoming)]
    lines = [_table(titles, rows)]
    if example.settings:
        lines.append(f"With {', '.join(f'`{name}` {_setting(value)}' for name, value in example.settings.items())}.")
    lines += [_advice(advice) for advice in example.advices]
    lines += [f"With a rate of {rate} {quote} for 1 {base}." for base, quote, rate in example.rates]
    for match in matches:
        done = "accepted at once" if match["status"] == "accepted" else "waits for a person"
        lines.append(f"> {match['explanation']}\n>\n> **{match['confidence']}**, {done}")
    if not matches:
        lines.append("Nothing is proposed.")
    return "\n\n".join(lines)


def _advice(advice: Row) -> str:
    listed = []
    for line in advice["lines"]:
        held = line.get("deductionMinor")
        less = f" and holds back {format_minor(held, 'EUR')} ({line['reason']})" if held else ""
        listed.append(f"{format_minor(line['amountMinor'], 'EUR')} for {line['reference']}{less}")
    payer, total = advice["counterpartyName"], format_minor(advice["totalMinor"], "EUR")
    return f"With a remittance advice of {payer}: of {total} EUR it has {', '.join(listed)}."


def _setting(value: Any) -> str:
    return "on" if value is True else str(value)


def _sides(side: str, rows: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    shown = rows if len(rows) <= _ROWS_SHOWN + 1 else rows[:_ROWS_SHOWN]
    for row in shown:
        code = row["reasonCode"]
        yield side, _amount(row), _date(row), _party(row), _says(row), f"`{code}`" if code else ""
    if len(shown) < len(rows):
        codes = sorted({row["reasonCode"] for row in rows[_ROWS_SHOWN:] if row["reasonCode"]})
        yield side, f"{len(rows) - len(shown)} more", "", "", "", ", ".join(f"`{code}`" for code in codes)


def _amount(row: Row) -> str:
    minor = parse_decimal(row["amount"], row["currency"])
    whole, _, rest = format_minor(minor, row["currency"]).partition(".")
    sign = "-" if row["direction"] == "debit" else ""
    text = f"{sign}{int(whole):,}.{rest} {row['currency']}"
    limits = [row.get(name) for name in ("minAmountMinor", "maxAmountMinor")]
    if any(limit is not None for limit in limits):
        text += f" ({' to '.join(format_minor(limit, row['currency']) for limit in limits if limit is not None)})"
    for term in row.get("terms") or ():
        text += f", or {format_minor(term['amountMinor'], row['currency'])} until {term['until']}"
    return text


def _date(row: Row) -> str:
    if "bookingDate" in row:
        return f"{row['bookingDate']}{', pending' if row['status'] == 'pending' else ''}"
    if row["expectedFrom"] is not None:
        return f"{row['expectedFrom']} to {row['expectedTo']}"
    return f"due {row['dueDate']}"


def _party(row: Row) -> str:
    behalf = row.get("ultimateCounterpartyName")
    texts = row["counterpartyName"], row["counterpartyAccount"], behalf and f"for {behalf}"
    return ", ".join(text for text in texts if text)


def _says(row: Row) -> str:
    texts = [row.get("reference"), row.get("remittance")]
    texts += [f"end-to-end id {row['endToEndId']}" if row["endToEndId"] else None]
    texts += [f"group {row['groupKey']}" if row["groupKey"] else None]
    texts += [f"on {row['account']}" if row["account"] else None]
    texts += ["a reversal" if row.get("reversal") else None]
    text = ", ".join(text for text in texts if text)
    return text if len(text) <= _TEXT_LENGTH_MAX else f"{text[:_TEXT_LENGTH_MAX]}…"


_TEXT_LENGTH_MAX: Final = 48


def filled(page: str, blocks: dict[str, str]) -> str:
    """Return the page with every block in its place, between ``<!-- key -->`` and ``<!-- / -->``.

    Raises
    ------
    AssertionError
        A block has no place, or a place no block.
    """
    places = re.findall(r"^<!-- (\w+) -->$", page, re.MULTILINE)
    missing, unknown = blocks.keys() - set(places), set(places) - blocks.keys()
    assert not missing, f"{sorted(missing)} have no place on the page"
    assert not unknown, f"the page has places for {sorted(unknown)}, which there are not"
    return re.sub(
        r"^<!-- (\w+) -->$.*?^<!-- / -->$",
        lambda found: f"<!-- {found[1]} -->\n\n{blocks[found[1]]}\n\n<!-- / -->",
        page,
        flags=re.MULTILINE | re.DOTALL,
    )
