"""What the reports share: columns by their headings, currencies, statements, and the entry of a row.

``amount_minor`` is what the payer paid (gross, in the payer's currency), ``net`` what moved on the account with the
provider, ``charges`` what the provider kept. A statement is one account in one currency of ``net``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from operator import itemgetter
from typing import Any, Final

from payrec.constants import FILE_ACCOUNTS_MAX, METADATA_KEY_LENGTH_MAX, TEXT_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import find_creditor_reference, is_iban
from payrec.domain.statements import Batch, Entry, EntryStatus, Money, Parsed, Statement, StatementEnd
from payrec.errors import UnreadableFileError
from payrec.formats.base import RecordError
from payrec.formats.csv.cells import Memory, date_of_cell, joined_texts, long_text, short_reference, short_text
from payrec.formats.csv.columns import ColumnFinder, unique_headings
from payrec.formats.csv.dates import date_reader
from payrec.formats.csv.values import AmountReader, amount_reader
from payrec.formats.csv.words import fold
from payrec.formats.text import clean

Signed = tuple[int, str]
"""Minor units, money in positive, and their currency."""

Currency = tuple[str, AmountReader]
"""ISO 4217 code, and what reads amounts in it."""

MISSING: Final = -1
"""Index of a column that the report does not have: the empty cell that is put behind every row."""


class Headings:
    """The columns of a report by their headings; which it has varies with the merchant's settings."""

    def __init__(self, headings: Sequence[str], profile: Mapping[str, Any]) -> None:
        self.width = len(headings)
        self._unique = unique_headings(headings)
        self._indexes: dict[str, int] = {}
        for index, heading in enumerate(headings):
            self._indexes.setdefault(fold(heading), index)
        finder = ColumnFinder(self._unique, self.width)
        kept = (finder.find(name, f"/profile/metadata/{i}") for i, name in enumerate(profile.get("metadata", ())))
        self.metadata = [(self.key(index), index) for index in kept]
        """Key and column of what the profile keeps."""

    def index(self, *names: str) -> int:
        """Return the column with the first of the folded headings that there is, else MISSING."""
        return next((self._indexes[name] for name in names if name in self._indexes), MISSING)

    def picker(self, *names: str | tuple[str, ...]) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """Make the function that takes the cells of these columns out of a row."""
        return itemgetter(*(self.index(*((name,) if isinstance(name, str) else name)) for name in names))

    def key(self, index: int) -> str:
        """Return the key under which the column is kept in ``metadata``."""
        name = short_text(self._unique[index][:TEXT_LENGTH_MAX])
        return name if name is not None and len(name) <= METADATA_KEY_LENGTH_MAX else f"column {index}"

    def fit(self, row: list[str]) -> list[str]:
        """Return the row with an empty cell behind it, which stands for every column that the report does not have.

        Raises
        ------
        RecordError
            ``invalid_entry`` for a row of another width, unless what it has more is empty.

        """
        if len(row) != self.width:
            if len(row) < self.width or any(cell.strip() for cell in row[self.width :]):
                raise RecordError("invalid_entry", f"the record has {len(row)} fields, the header {self.width}")
            del row[self.width :]
        row.append("")
        return row


class Ledger:
    """The statements of one file, and what was remembered of the cells that come again and again."""

    def __init__(self, *, account: str | None, implied_decimals: bool = False, decimals: int | None = None) -> None:
        # A merchant's account is a name that the provider shows as it is written, not a number.
        self._account = clean(account)
        self._implied = implied_decimals
        self._decimals = decimals
        self._statements: dict[tuple[str | None, str], Statement] = {}
        self.opened: list[Statement] = []
        """Statements that began and are not yielded yet."""
        self.currencies: Memory[Currency] = Memory(self._currency)
        self.dates: Memory[date | None] = Memory(date_of_cell(date_reader(None)))
        self.texts: Memory[str | None] = Memory(short_text)
        self.batches: Memory[Batch | None] = Memory(_batch)

    def _currency(self, cell: str) -> Currency:
        code = cell.strip().upper()
        if code not in MINOR_UNITS:
            raise RecordError("invalid_entry", "the currency is not an ISO 4217 code")
        digits = MINOR_UNITS[code]
        if not self._implied:
            return code, amount_reader(".", digits)
        return code, amount_reader(".", digits, digits if self._decimals is None else self._decimals)

    def statement(self, account: str | None, currency: str) -> Statement:
        """Return the statement of the account in the currency of its net amounts.

        Raises
        ------
        UnreadableFileError
            ``csv_too_many_accounts``.

        """
        account = self._account or account
        statement = self._statements.get((account, currency))
        if statement is None:
            if len(self._statements) >= FILE_ACCOUNTS_MAX:
                raise UnreadableFileError(
                    "csv_too_many_accounts", f"the file has more than {FILE_ACCOUNTS_MAX} accounts"
                )
            statement = Statement(len(self._statements), "settlement", account=account, currency=currency)
            statement.account_scheme = "iban" if account is not None and is_iban(account) else "other"
            self._statements[account, currency] = statement
            self.opened.append(statement)
        return statement

    def known(self, account: str | None, currency: str) -> Statement | None:
        """Return the statement if it has begun."""
        return self._statements.get((self._account or account, currency))

    def entry(
        self,
        line: int,
        account: str | None,
        gross: Signed,
        net: Signed,
        charges: Sequence[Signed],
        dates: tuple[date | None, date | None],
        *,
        status: EntryStatus = "booked",
    ) -> Entry:
        """Make the entry of a row; ``charges`` are positive for what the provider keeps, ``dates`` booking and value.

        A row without gross (a fee, a payout) moves its net, and its own charges are that amount.
        """
        statement = self.statement(account, net[1])
        if not gross[0]:
            gross, charges = net, ()
        minor, net_minor = gross[0], net[0]
        entry = Entry(
            statement.index, 0, line, status, "credit" if minor >= 0 else "debit", abs(minor),
            gross[1], False, dates[0], dates[1], statement.account,  # noqa: FBT003  # by position: twice as fast
        )  # fmt: skip
        entry.net = Money(abs(net_minor), net[1], "credit" if net_minor >= 0 else "debit")
        entry.charges = [
            Money(abs(charge), currency, "debit" if charge > 0 else "credit") for charge, currency in charges if charge
        ]
        return entry

    def describe(self, entry: Entry, *, code: str, bank_reference: str, end_to_end_id: str, group: str) -> None:
        """Add type, references and the payout or batch that the entry nets in; raises ``RecordError``."""
        if code:
            entry.bank_transaction_code = self.texts[code]
        if bank_reference:
            entry.bank_reference = provider_reference(bank_reference)
        if end_to_end_id:
            entry.end_to_end_id = (
                entry.bank_reference if end_to_end_id == bank_reference else provider_reference(end_to_end_id)
            )
        if group:
            entry.batch = self.batches[group]

    def end(self) -> Iterator[Parsed]:
        """End the statements."""
        for statement in self._statements.values():
            yield StatementEnd(statement)


def provider_reference(cell: str) -> str | None:
    """Return a reference, None for the words that mean none; raises ``RecordError`` when it is too long."""
    # An id is one word and longer than those words: one call instead of six for it.
    if 12 < len(cell) <= TEXT_LENGTH_MAX and cell.isascii() and cell.replace("_", "").isalnum():
        return cell
    return short_reference(cell) if cell else None


def remit(entry: Entry, cells: Sequence[str]) -> None:
    """Set the remittance text from several cells, and the creditor reference in it; raises ``RecordError``."""
    given = [cell for cell in cells if cell]
    text = long_text(given[0]) if len(given) == 1 else joined_texts(given) if given else None
    if text is not None:
        entry.remittance = text
        if "RF" in text:
            entry.structured_reference = find_creditor_reference(text)


def identify(entry: Entry, *parts: str, of_account: bool = False) -> None:
    """Make the provider's id the identity; a row that has none of the parts is told by its content.

    What only the rows of one account (``of_account``) are told by comes again in others, and there again: it is no
    external id, which is one transaction wherever it stands.

    Raises
    ------
    RecordError
        ``field_too_long``.

    """
    if len(parts) == 1:
        value = provider_reference(parts[0]) or ""
    else:
        value = "/".join([provider_reference(part) or "" for part in parts])
    if len(value) > TEXT_LENGTH_MAX:
        raise RecordError("field_too_long", f"an identity is longer than {TEXT_LENGTH_MAX} characters")
    if value.strip("/"):
        entry.identity_kind = "bank"
        entry.identity_value = value
        if not of_account:
            entry.external_id = value


def _batch(cell: str) -> Batch | None:
    key = short_reference(cell)
    return None if key is None else Batch(key, None, itemised=False)
