"""Which column is what: headings in many languages, settled by what stands below them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from payrec.constants import AMOUNT_TEXT_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import is_iban
from payrec.errors import UnreadableFileError
from payrec.formats.csv.dates import date_evidence
from payrec.formats.csv.marks import WIDE_MARK_RANK, are_both_marks, are_only_marks, is_mark, mark_direction
from payrec.formats.csv.profile import COLUMN_ROLES
from payrec.formats.csv.values import is_amount, split_amount, unwrap
from payrec.formats.csv.words import (
    CURRENCY_WORDS,
    KNOWN_HEADINGS,
    PAYMENT_REFERENCES,
    PENDING_WORDS,
    ROLE_PHRASES,
    SETTLED_AMOUNTS,
    STOP_WORDS,
    fold,
)

Columns = dict[str, list[int]]
"""Role to the indexes of its columns.

Besides the roles of a profile: mark, ownAccount, reference, status, impact, event.
"""

_MANY: Final = frozenset({"remittance", "reference"})
"""Roles of which a table may have several columns."""

_IN_BRACKETS: Final = re.compile(r"\([^)]*\)|\[[^\]]*\]")
_ACCOUNT_DIGITS_MIN: Final = 5
"""So few digits are no account, whatever else stands in a cell."""
_NUMBERED: Final = re.compile(r" ?[0-9]{1,2}$")


def _headings_of(cell: str) -> list[str]:
    """Return the folded forms under which a heading may be known, the most literal first."""
    forms = [fold(cell)]
    if "(" in cell or "[" in cell:
        forms.append(fold(_IN_BRACKETS.sub(" ", cell)))
    words = forms[0].split()
    if len(words) > 1 and _currency_of(words[-1]) is not None:
        forms.append(" ".join(words[:-1]))
    if cell[-1:].isdigit():
        forms.append(_NUMBERED.sub("", forms[0]))
    forms += [" ".join(word for word in form.split() if word not in STOP_WORDS) for form in tuple(forms)]
    return forms


def known_heading(cell: str) -> str | None:
    """Return the folded heading if it is a known word, else None."""
    if len(cell) > 100:
        return None
    return next((form for form in _headings_of(cell) if form in KNOWN_HEADINGS), None)


def _currency_of(word: str) -> str | None:
    code = word.upper()
    return code if len(code) == 3 and code in MINOR_UNITS else CURRENCY_WORDS.get(word)


def heading_currency(cell: str) -> str | None:
    """Return the currency of ``Amount (EUR)``, ``Betrag in EUR`` or ``Crédit euros``."""
    words = fold(cell).split()
    return _currency_of(words[-1]) if len(words) > 1 else None


def is_pending_word(cell: str) -> bool:
    """Whether the cell says that the row is not booked yet."""
    return len(cell) < 60 and fold(cell) in PENDING_WORDS


def is_currency(cell: str) -> bool:
    """Whether the cell is an ISO 4217 code."""
    return cell.strip().upper() in MINOR_UNITS


def is_date(cell: str) -> bool:
    """Whether the cell is a date in some order, or a word that stands for one."""
    return date_evidence(cell) is not None or is_pending_word(cell)


def _is_iban(cell: str) -> bool:
    return is_iban(cell.replace(" ", ""))


def _is_name(cell: str) -> bool:
    """Whether the cell is no account: banks have these below headings such as ``Avsändare`` too."""
    digits = sum(map(str.isdigit, cell))
    return (digits < _ACCOUNT_DIGITS_MIN or digits <= sum(map(str.isalpha, cell))) and not _is_iban(cell)


_CONTENT: Final[dict[str, Callable[[str], bool]]] = {
    "bookingDate": is_date,
    "valueDate": is_date,
    "amount": is_amount,
    "debit": is_amount,
    "credit": is_amount,
    "balance": is_amount,
    "originalAmount": is_amount,
    "net": is_amount,
    "fee": is_amount,
    "tax": is_amount,
    "currency": is_currency,
    "originalCurrency": is_currency,
    "mark": is_mark,
    **dict.fromkeys(("payerName", "payeeName", "counterpartyName", "ultimateCounterpartyName"), _is_name),
}
"""What the cells below a heading must be for it to have the role; the majority decides, one cell may be garbled."""

_ORDER: Final = (
    *("bookingDate", "valueDate", "debit", "credit", "mark", "currency", "originalCurrency", "balance"),
    *(
        "originalAmount",
        "net",
        "fee",
        "tax",
        "amount",
        "ownAccount",
        "counterpartyAccount",
        "account",
        "payerName",
        "payeeName",
    ),
    *("counterpartyName", "ultimateCounterpartyName"),
    *("counterpartyBic", "structuredReference", "endToEndId", "bankTransactionCode", "remittance", "reference"),
    *("status", "impact", "event"),
)
"""Roles in the order in which they take their columns: what is told by its cells goes first."""

_LESS_FEE: Final = ("amount", "fee", "net", "tax")


_UNCLEAR_STATUS_RANK: Final = ROLE_PHRASES["status"]["info"]
"""``Info`` is what savings banks call whether a row is booked, and others a text, which may begin with any word."""
_BOOKED_OR_NOT: Final = re.compile(r"gebucht|vorgemerkt", re.IGNORECASE)

_TOTAL_RANKS: Final = frozenset(ROLE_PHRASES["amount"][heading] for heading in ("total amount", "montant total"))
"""Totals go before amounts, as they have the fees in them, unless they are of several rows together."""

_UNCLEAR_PARTY_RANK: Final = ROLE_PHRASES["counterpartyAccount"]["counterparty"]
"""``Counterparty`` is a name or an account; what stands below it tells."""


def _holds(role: str, rank: int, cells: Iterable[str]) -> bool:
    """Whether the majority of the cells that are not empty are what the role needs; none at all is no objection."""
    check = _CONTENT.get(role)
    if role == "counterpartyAccount" and rank == _UNCLEAR_PARTY_RANK:
        check = _is_iban
    if role == "status" and rank == _UNCLEAR_STATUS_RANK:
        states = [cell for cell in cells if cell and not cell.isspace()]
        return bool(states) and all(map(_BOOKED_OR_NOT.search, states))
    if check is None:
        return role != "remittance" or not are_both_marks(cells)
    good = total = 0
    for cell in cells:
        if cell and not cell.isspace():
            total += 1
            good += check(cell)
    if role == "mark":
        return total > 0 and (good == total or (rank < WIDE_MARK_RANK and good * 2 >= total))
    return good * 2 >= total


def assign_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Columns:
    """Give each heading that is known its role, looking at the rows below where a word means two things.

    ``Valuta`` is a currency in Danish and a date in German; ``Valor`` is an amount or a date.
    """
    forms = [_headings_of(cell) if cell.strip() and len(cell) <= 100 else [] for cell in header]
    # Each role is looked at against the same few rows; two hundred say enough.
    below = [[row[i].strip() for row in rows[:200] if i < len(row)] for i in range(len(header))]
    taken: set[int] = set()
    columns: Columns = {}
    wide_mark: int | None = None

    def ranking(role: str) -> list[tuple[int, int]]:
        phrases = ROLE_PHRASES[role]
        ranked = sorted(
            (rank, i)
            for i in range(len(header))
            if i not in taken
            and (rank := min((phrases[form] for form in forms[i] if form in phrases), default=-1)) >= 0
            and _holds(role, rank, below[i])
        )
        return ranked[_is_of_several_rows(ranked, below) :] if role == "amount" else ranked

    for role in _ORDER:
        ranked = ranking(role)
        if ranked:
            chosen = sorted(i for _, i in ranked) if role in _MANY else [ranked[0][1]]
            columns[role] = chosen
            taken.update(chosen)
            if role == "mark" and ranked[0][0] >= WIDE_MARK_RANK:
                wide_mark = ranked[0][1]
    settled = "amount" in columns and not SETTLED_AMOUNTS.isdisjoint(forms[columns["amount"][0]])
    if settled and "originalAmount" not in columns:
        # What stands beside what was settled is what the payer has paid, in a currency of its own.
        amounts, currencies = ranking("amount"), ranking("currency")
        if amounts and currencies:
            columns["originalAmount"], columns["originalCurrency"] = [amounts[0][1]], [currencies[0][1]]
            taken.update((amounts[0][1], currencies[0][1]))
            if "transaction currency" in forms[columns["currency"][0]]:
                columns["currency"], columns["originalCurrency"] = columns["originalCurrency"], columns["currency"]
    if "amount" in columns and "mark" not in columns and (unnamed := _unnamed_mark(columns, header, below)) is not None:
        columns["mark"] = [unnamed]
        taken.add(unnamed)
    if wide_mark is not None and "amount" in columns and _are_signed(rows, columns["amount"][0], wide_mark):
        # "Direct debit" is the kind of a transaction then, no mark: a returned one is money in.
        del columns["mark"]
        columns.setdefault("bankTransactionCode", [wide_mark])
    if "tax" in columns and "net" in columns and not _is_less_fee(columns, below):
        del columns["net"]  # It is net of the tax, which the payer has paid as well.
    columns.pop("tax", None)
    _settle(columns, forms)
    if "remittance" in columns:
        columns["remittance"] = _continued(columns["remittance"], header, below, taken)
    return columns


def _is_of_several_rows(ranked: Sequence[tuple[int, int]], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some columns of amounts is a total that most rows leave empty which have another amount."""
    if len(ranked) < 2 or ranked[0][0] not in _TOTAL_RANKS:
        return False
    total, other = (sum(map(bool, below[index])) for _, index in ranked[:2])
    return total * 2 < other


def _is_less_fee(columns: Columns, below: Sequence[Sequence[str]]) -> bool:
    """Whether the net is the amount less the fee in most rows with a tax, which may be that of the fee.

    Digits are compared, as the decimal sign is not known yet.
    """
    if not columns.keys() >= {"amount", "fee"}:
        return False
    numbers = [[_digits(cell) for cell in below[columns[role][0]]] for role in _LESS_FEE]
    taxed = [row for row in zip(*numbers, strict=False) if row[-1]]
    good = [abs(gross - net) in ({fee, fee + tax} if fee else {0}) for gross, fee, net, tax in taxed]
    return sum(good) * 2 >= len(good)


def _digits(cell: str) -> int:
    return int("".join(filter(str.isdecimal, cell[:AMOUNT_TEXT_LENGTH_MAX])) or "0")


def _unnamed_mark(columns: Columns, header: Sequence[str], below: Sequence[Sequence[str]]) -> int | None:
    """Return the column beside the amounts that has no heading, and marks alone: cooperative banks write S and H so."""
    (amount,) = columns["amount"]
    for beside in (amount + 1, amount - 1):
        if 0 <= beside < len(header) and not header[beside].strip() and are_only_marks(below[beside]):
            return beside
    return None


def _are_signed(rows: Sequence[Sequence[str]], amount: int, mark: int) -> bool:
    """Whether most amounts that are marked as money out are negative, so that they need no mark."""
    marked = [row[amount] for row in rows if len(row) > max(amount, mark) and mark_direction(row[mark]) == -1]
    signs = [parts[0] for cell in marked if (parts := split_amount(cell)) is not None]
    return signs.count(-1) * 2 > len(signs)


def _continued(
    indexes: Sequence[int], header: Sequence[str], below: Sequence[Sequence[str]], taken: set[int]
) -> list[int]:
    """Add the columns without a heading that go on with the text of the column before them."""
    found = []
    for index in indexes:
        found.append(index)
        for follower in range(index + 1, len(header)):
            has_text = any(character.isalpha() for cell in below[follower] for character in cell)
            if header[follower].strip() or follower in taken or not has_text:
                break
            found.append(follower)
    return found


def _settle(columns: Columns, forms: Sequence[Sequence[str]]) -> None:
    """Make the roles agree with each other; ``forms`` are the headings."""
    # Of payer and payee the other one is the counterparty. A payee alone is what many call whoever it is.
    if "payeeName" in columns and "payerName" not in columns:
        columns.setdefault("counterpartyName", columns.pop("payeeName"))
        columns.pop("payeeName", None)
    elif "payeeName" in columns or "counterpartyName" in columns:
        columns.pop("counterpartyName" if "payeeName" in columns else "payerName", None)
    # One side alone is no pair: it may be the only amount column there is ("Debit" in a list of debits stays unread).
    if ("debit" in columns) != ("credit" in columns):
        columns.pop("debit", None)
        columns.pop("credit", None)
    # The pair always tells the direction; an amount column beside it may be without sign.
    if "debit" in columns:
        columns.pop("amount", None)
    if "net" in columns and "amount" not in columns:
        columns["amount"] = columns.pop("net")
    # A fee alone does not say whether the amount includes it, but a running balance does.
    if "amount" not in columns or not columns.keys() & {"net", "balance"}:
        columns.pop("net", None)
        columns.pop("fee", None)
    written = [i for i in columns.get("reference", ()) if any(form in PAYMENT_REFERENCES for form in forms[i])]
    if written:
        columns["remittance"] = sorted({*columns.get("remittance", ()), *written})
        columns["reference"] = [i for i in columns["reference"] if i not in written]
        if not columns["reference"]:
            del columns["reference"]
    if "remittance" not in columns and "bankTransactionCode" in columns:
        columns["remittance"] = columns.pop("bankTransactionCode")
    # Only Adyen's words for what happened to a payment are known: in other tables, what is received may be money.
    if not any("psp reference" in headings for headings in forms):
        columns.pop("event", None)


def has_essentials(columns: Columns) -> bool:
    """Whether there is a date column and an amount column."""
    return bool(columns.keys() & {"bookingDate", "valueDate"}) and bool(columns.keys() & {"amount", "debit", "credit"})


def unique_headings(header: Sequence[str]) -> list[str]:
    """Return the headings with ``#2``, ``#3`` behind those that occur again."""
    seen: dict[str, int] = {}
    result = []
    for cell in header:
        name = unwrap(cell).strip()
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


class ColumnFinder:
    """Resolves the columns that a profile names, by number or by heading (case and accents do not matter)."""

    def __init__(self, header: Sequence[str] | None, width: int) -> None:
        self._width = width
        self._names: dict[str, int] = {}
        for index, name in enumerate(header or ()):
            self._names.setdefault(name.strip(), index)
            self._names.setdefault(fold(name), index)

    def find(self, value: Any, pointer: str) -> int:
        """Return the index.

        Raises
        ------
        UnreadableFileError
            ``csv_column_missing``: this file is not what the profile was saved for.

        """
        if isinstance(value, int):
            if 0 <= value < max(self._width, 1):
                return value
        else:
            index = self._names.get(value.strip(), self._names.get(fold(value)))
            if index is not None:
                return index
        raise UnreadableFileError("csv_column_missing", f"the file does not have the column that {pointer} names")


def profile_columns(named: Mapping[str, Any], finder: ColumnFinder) -> Columns:
    """Resolve ``columns`` of a profile."""
    columns: Columns = {}
    for role in COLUMN_ROLES:
        value = named.get(role)
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            columns[role] = [
                finder.find(item, f"/profile/columns/{role}/{position}") for position, item in enumerate(value)
            ]
        else:
            columns[role] = [finder.find(value, f"/profile/columns/{role}")]
    return columns
