"""Field 86 of MT940 and MT942: the structures that banks put into "information to the account owner".

Sources: the German structure of DFÜ-Abkommen annex 3, chapter 8 (business transaction code, separator, two-digit
fields; SEPA keywords within the text), which Polish banks write without the code too; the slash structure of the Dutch
and Belgian banks (``/EREF/…/REMI/USTD//…``); field NS of the StarMoney dialect; otherwise free text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

from payrec.constants import TEXT_LENGTH_MAX
from payrec.domain.references import find_creditor_reference, is_iban
from payrec.domain.statements import Entry, Money
from payrec.formats import text
from payrec.formats.base import RecordError
from payrec.formats.mt940.labelled import read_labelled
from payrec.formats.mt940.lines import amount_minor, bank_code, read_amount_words
from payrec.formats.mt940.slash import LINE_WIDTH, join_lines, read_slash
from payrec.formats.return_fees import tell_fee_apart

FIELD_WIDTH: Final = 27
"""Characters of a full field of the German structure, and of a line of field NS."""

END_TO_END_LENGTH_MAX: Final = 35
"""Characters of an id in SEPA (ISO 20022 Max35Text)."""

_GERMAN: Final = re.compile(r"\s*([0-9]{3})([^\w\s/.,:;()'\"-])(?=[0-9]{2})")
_CODELESS: Final = re.compile(r"\s*()([\^<>~?|])(?=(?:00|10|2[0-9]|3[0-3])(?![0-9]{2}))")
"""The same without the code (``~00PRZELEW~20FV 1~32…``): only what could hardly be text."""
_CODE: Final = re.compile(r"[0-9]{3}")
_GERMAN_FIELDS: Final = frozenset(
    ["00", "10", *map(str, range(20, 40)), *map(str, range(60, 66)), *map(str, range(70, 74))]
)
"""Two digits behind a separator that are a field; all others are text (``Wieviel?50 Euro``)."""
_GERMAN_TEXT: Final = frozenset([*map(str, range(20, 30)), *map(str, range(60, 64))])
_RETURN_CODE: Final = re.compile(r"9[0-7][0-9]")
"""Values of field 34 that say why a payment came back; 000, 339 or 992 and above extend the text key of any payment."""
_KEYWORD_COLON: Final = re.compile(r"(EREF|KREF|MREF|CRED|DEBT|COAM|OAMT|SVWZ|ABWA|ABWE|IBAN|BIC):")
_KEYWORDS: Final = frozenset("EREF KREF MREF CRED DEBT COAM OAMT SVWZ ABWA ABWE IBAN".split())  # noqa: SIM905  # as one reads them
"""SEPA keywords of four letters; BIC is the only one of three."""
_KEYWORD_IDS: Final = frozenset({"EREF", "KREF", "MREF", "CRED", "DEBT"})
_KEYWORD_METADATA: Final = {"CRED": "creditorId", "DEBT": "debtorId", "COAM": "compensationAmount"}
_KEYWORD_AMOUNT: Final = re.compile(r"\s*([A-Z]{3})?\s*([0-9]{1,15}[.,]?[0-9]{0,4})\s*")

_NS_KEY: Final = re.compile(r"([0-9]{2})(.*)", re.DOTALL)
_NS_TEXT: Final = tuple(f"{key:02}" for key in range(1, 15))


def read_details(entry: Entry, lines: Sequence[str], ns_lines: Sequence[str], *, size: int) -> None:
    """Fill the entry from the lines of its fields 86 and NS, either of which may be absent.

    ``size`` is how many characters the entry has in the file, at least: only a long one can have a long field.

    Raises
    ------
    RecordError
        ``field_too_long`` when an id, a name or a value of the metadata is longer than ``TEXT_LENGTH_MAX``.

    """
    if lines:
        _read_86(entry, lines)
    if ns_lines:
        _read_ns(entry, ns_lines)
    supplement = entry.metadata.get("supplementaryDetails")
    if supplement and entry.counterparty_account is None and is_iban(supplement):
        entry.counterparty_account = text.account(supplement)  # Rabobank
    if entry.remittance is None and not lines and not ns_lines:
        entry.remittance = entry.metadata.pop("supplementaryDetails", None)
    if entry.structured_reference is None and entry.remittance:
        entry.structured_reference = find_creditor_reference(entry.remittance)
    if entry.original is not None:
        _settle_original(entry)
    if size > TEXT_LENGTH_MAX:
        _check_lengths(entry)


def _check_lengths(entry: Entry) -> None:
    values = (
        entry.end_to_end_id, entry.mandate_id, entry.instruction_id, entry.payment_information_id, entry.bank_reference,
        entry.structured_reference, entry.counterparty_name, entry.counterparty_account, entry.counterparty_bic,
        entry.ultimate_counterparty_name, entry.purpose_code, entry.return_reason, *entry.metadata.values(),
    )  # fmt: skip
    if any(value is not None and len(value) > TEXT_LENGTH_MAX for value in values):
        raise RecordError("field_too_long", f"a field is longer than {TEXT_LENGTH_MAX} characters")


def _read_86(entry: Entry, lines: Sequence[str]) -> None:
    lines = _with_code(lines)
    german = _GERMAN.match(lines[0]) or _CODELESS.match(lines[0])
    if german is not None and (german[1] or _has_fields(lines, german[2])):
        _read_german(entry, german[1], german[2], _join_german(lines, german[2]))
    elif not read_slash(entry, lines):
        joined = join_lines(lines)
        if not read_labelled(entry, joined):
            entry.remittance = text.clean(joined)
    if entry.remittance is not None:
        read_amount_words(entry, entry.remittance)


def _with_code(lines: Sequence[str]) -> Sequence[str]:
    """Put a code that stands alone before the fields: some banks write a field 86 for each of the two."""
    if len(lines) > 1 and _CODE.fullmatch(lines[0].strip()):
        if _GERMAN.match(lines[1]):
            return lines[1:]
        if _CODELESS.match(lines[1]):
            return [lines[0].strip() + lines[1].lstrip(), *lines[2:]]
    return lines


def _has_fields(lines: Sequence[str], separator: str) -> bool:
    """Whether there is more than one field: one alone may be a text of people's."""
    return sum(line.count(separator) for line in lines) > 1


def _join_german(lines: Sequence[str], separator: str) -> str:
    """Join lines without blanks, except where a line misses so little that a blank at its end was trimmed."""
    if len(lines) == 1:
        return lines[0]
    for line in lines:
        if len(line) != LINE_WIDTH:
            break
    if line is lines[-1]:
        return "".join(lines)
    parts = [lines[0]]
    length = len(lines[0])
    for line in lines[1:]:
        if LINE_WIDTH - 3 <= length < LINE_WIDTH and not line.startswith(separator):
            parts.append(" ")
        parts.append(line)
        length = len(line)
    return "".join(parts)


def _read_german(entry: Entry, code: str, separator: str, content: str) -> None:
    if code:
        entry.bank_transaction_code = f"{entry.bank_transaction_code}+{code}" if entry.bank_transaction_code else code
    fields = _german_fields(content, separator)
    get = fields.get
    if booking_text := _clean_repeated(get("00")):
        entry.metadata["bookingText"] = booking_text
    name, more = get("32"), get("33")
    if name or more:
        entry.counterparty_name = text.clean(_join_name(name, more) if name and more else name or more)
    bank = get("30")
    if bank:
        entry.counterparty_bic, national = bank_code(bank)
        if national:
            entry.metadata["counterpartyBankCode"] = national
    number = text.account(get("31"))
    if (iban := get("38")) and not (number and is_iban(number)):
        number = text.account(iban) or number
    if number and entry.account and number == entry.account.rpartition("/")[2]:
        # Triodos: the own account is here, and the text begins with BIC and IBAN of the counterparty.
        number = text.account(get("21"))
        number = number if number and is_iban(number) else None
        if number and entry.counterparty_bic is None:
            entry.counterparty_bic = bank_code(get("20", ""))[0]
    entry.counterparty_account = number
    returned = get("34")
    if returned and _RETURN_CODE.fullmatch(returned.strip()):
        entry.return_reason = returned.strip()
    pieces = [value for key, value in fields.items() if key in _GERMAN_TEXT]
    if not code:
        pieces = _polish_texts(entry, pieces)
    if pieces:
        _read_keywords(entry, pieces)


def _polish_texts(entry: Entry, pieces: list[str]) -> list[str]:
    """Return the texts with the blanks between them; one that is the counterparty's account is none.

    Fields without a code are lines as people wrote them, of which only a full one breaks within a word.
    """
    texts = []
    for piece in pieces:
        number = text.account(piece)
        if number and is_iban(number):
            entry.counterparty_account = entry.counterparty_account or number
        else:
            texts.append(piece if len(piece) >= FIELD_WIDTH else f"{piece} ")
    return texts


def _german_fields(content: str, separator: str) -> dict[str, str]:
    """Split at the separator where a field begins; text that has the separator in it stays whole."""
    parts = content.split(separator)[1:]
    fields = {part[:2]: part[2:] for part in parts}
    if len(fields) == len(parts) and separator != "+" and _GERMAN_FIELDS.issuperset(fields):
        return fields
    fields = {}
    last = ""
    ascending = separator == "+"  # The plus sign also ends keywords (EREF+…): only a higher number is a field then.
    for part in parts:
        key = part[:2]
        if key in _GERMAN_FIELDS and not (ascending and key <= last):
            fields[key] = fields.get(key, "") + part[2:]
            last = key
        elif last:
            fields[last] += separator + part
    return fields


_clean_repeated: Final = lru_cache(maxsize=1024)(text.clean)
"""For texts of which a file has few: booking texts."""


def _join_name(name: str, more: str) -> str:
    """Join two halves of a name: a full field goes on without a blank."""
    return name + more if len(name) >= FIELD_WIDTH else f"{name} {more}"


def _read_keywords(entry: Entry, pieces: list[str]) -> None:
    """Split the text at the SEPA keywords: its pieces are joined without blanks, as keywords break across fields."""
    joined = "".join(pieces)
    found = _find_keywords(joined, pieces)
    if not found:
        entry.remittance = text.clean(joined)
        return
    values: dict[str, str] = {}
    rests = []
    # Backwards, as each value ends where the next keyword begins; of two equal keywords the first wins.
    end = len(joined)
    for begin, value_begin, key in reversed(found):
        value = joined[value_begin:end]
        if len(value) > END_TO_END_LENGTH_MAX and key in _KEYWORD_IDS:
            value, rest = _cut_id(value, value_begin, pieces)
            rests.append(rest)
        values[key] = value
        end = begin
    if "SVWZ" in values:
        entry.remittance = text.clean(values["SVWZ"])
    else:
        # Text that no keyword owns, behind an id, is the remittance; without any the whole text is.
        entry.remittance = text.clean(" ".join(reversed(rests))) or text.clean(joined)
    _apply_keywords(entry, values)


def _find_keywords(joined: str, pieces: list[str]) -> list[tuple[int, int, str]]:
    """Return begin, begin of the value, and keyword, in the order of the text.

    A plus sign makes four letters a keyword anywhere. A colon, or the three letters BIC, may end a word of the text:
    the keyword must begin one, or a field.
    """
    found = []
    mark = joined.find("+")
    while mark >= 0:
        key = joined[mark - 4 : mark] if mark >= 4 else ""
        if key in _KEYWORDS:
            found.append((mark - 4, mark + 1, key))
        elif joined.endswith("BIC", 0, mark) and _begins_word(joined, mark - 3, pieces):
            found.append((mark - 3, mark + 1, "BIC"))
        mark = joined.find("+", mark + 1)
    if ":" in joined:
        matches = _KEYWORD_COLON.finditer(joined)
        found += [(m.start(), m.end(), m[1]) for m in matches if _begins_word(joined, m.start(), pieces)]
        found.sort()
    return found


def _begins_word(joined: str, begin: int, pieces: list[str]) -> bool:
    return begin == 0 or not joined[begin - 1].isalnum() or begin in _piece_starts(pieces)


def _piece_starts(pieces: list[str]) -> list[int]:
    starts, offset = [], 0
    for piece in pieces:
        starts.append(offset)
        offset += len(piece)
    return starts


def _cut_id(value: str, offset: int, pieces: list[str]) -> tuple[str, str]:
    """Cut an id that is too long to be one where the last field begins that keeps it short enough."""
    cuts = [start - offset for start in _piece_starts(pieces) if 0 < start - offset <= END_TO_END_LENGTH_MAX]
    return (value[: cuts[-1]], value[cuts[-1] :]) if cuts else (value, "")


def _apply_keywords(entry: Entry, values: dict[str, str]) -> None:
    rare = False
    for key, value in values.items():
        if key == "EREF":
            entry.end_to_end_id = text.reference(value)
        elif key == "MREF":
            entry.mandate_id = text.reference(value)
        elif key == "KREF":
            entry.instruction_id = text.reference(value) or entry.instruction_id
        elif key in _KEYWORD_METADATA:
            if kept := text.reference(value):
                entry.metadata[_KEYWORD_METADATA[key]] = kept
        elif key != "SVWZ":
            rare = True
    if rare:
        _apply_rare_keywords(entry, values)


def _apply_rare_keywords(entry: Entry, values: dict[str, str]) -> None:
    get = values.get
    # The other one of the two is on the side of the account itself.
    entry.ultimate_counterparty_name = text.clean(get("ABWA" if entry.direction == "credit" else "ABWE"))
    if entry.counterparty_account is None:
        entry.counterparty_account = text.account(get("IBAN"))
    if entry.counterparty_bic is None and "BIC" in values:
        entry.counterparty_bic = bank_code(values["BIC"])[0]
    if "OAMT" in values and (entry.original is None or entry.original.currency == entry.currency):
        try:
            entry.original = _keyword_amount(values["OAMT"], entry.currency) or entry.original
        except RecordError:
            entry.metadata["originalAmount"] = values["OAMT"].strip()


def _keyword_amount(value: str, currency: str) -> Money | None:
    """Return the amount of OAMT or COAM, which is in the entry's currency where it names none."""
    found = _KEYWORD_AMOUNT.fullmatch(value)
    return Money(amount_minor(found[2], found[1] or currency), found[1] or currency) if found else None


def _settle_original(entry: Entry) -> None:
    """Keep an original amount in another currency; one in the entry's own says what a return is of, without its fee."""
    original = entry.original
    if original is None or original.currency != entry.currency:
        return
    entry.original = None
    if not entry.charges and "compensationAmount" in entry.metadata:
        with suppress(RecordError):
            fee = _keyword_amount(entry.metadata["compensationAmount"], entry.currency)
            if fee is not None and original.amount_minor + fee.amount_minor == entry.amount_minor:
                entry.charges.append(Money(fee.amount_minor, fee.currency, "debit"))
    tell_fee_apart(entry, original_minor=original.amount_minor)


def _read_ns(entry: Entry, lines: Sequence[str]) -> None:
    """Read lines with two-digit keys: 01 to 14 text, 15 and 16 name, 17 booking text, 33 bank code, 34 account."""
    fields: dict[str, str] = {}
    last = ""
    for line in lines:
        found = _NS_KEY.match(line)
        if found is not None:
            last = found[1]
            fields[last] = f"{fields[last]} {found[2]}" if last in fields else found[2]
        elif last:
            fields[last] += " " + line
    remittance = text.clean(" ".join(fields[key] for key in _NS_TEXT if key in fields))
    entry.remittance = text.clean(f"{entry.remittance or ''} {remittance or ''}")
    if entry.counterparty_name is None and ("15" in fields or "16" in fields):
        entry.counterparty_name = text.clean(_join_name(fields.get("15", ""), fields.get("16", "")))
    if entry.counterparty_account is None:
        entry.counterparty_account = text.account(fields.get("34"))
    for key, name in (("17", "bookingText"), ("33", "counterpartyBankCode")):
        if value := text.clean(fields.get(key)):
            entry.metadata.setdefault(name, value)
