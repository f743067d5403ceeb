"""The slash structure of field 86, as Dutch and Belgian banks write it: ``/EREF/…/ORDP//NAME/…/REMI/USTD//…``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from payrec.domain.references import is_creditor_reference
from payrec.domain.statements import Entry
from payrec.formats import text
from payrec.formats.mt940.lines import bank_code, read_amount_words

LINE_WIDTH: Final = 65
"""Characters of a full line of field 86: the text goes on in the next line without a blank."""

_FIRST_LINE_WIDTH: Final = LINE_WIDTH - len(":86:")
"""The same of the first line, where the bank counts the tag."""

_START: Final = re.compile(r"\s*/[A-Z0-9]{2,10}/")
_KEYS: Final = re.compile(
    r"/(EREF|ORDP|BENM|CNTP|REMI|IBAN|BIC|NAME|MARF|CSID|TRTP|PREF|RTRN|ISDT|PURP|ULTD|ULTC|BBAN|CDTRREFTP|CDTRREF|ADDR|TRCD"
    r"|(?:OCMT|CHG[ST])(?=/[A-Z]{3}[0-9])|EXCH(?=/[0-9]))(?=/)"
)
_AMOUNT_WORDS: Final = frozenset({"OCMT", "CHGS", "CHGT", "EXCH"})
_AMOUNT: Final = re.compile(r"/[A-Z]{0,3}[0-9.,]*")
_PARTIES: Final = frozenset({"ORDP", "BENM", "ULTD", "ULTC"})
_REFERENCES: Final = {"EREF": "end_to_end_id", "MARF": "mandate_id", "PREF": "payment_information_id"}
_METADATA: Final = {"CSID": "creditorId", "TRTP": "bookingText", "ISDT": "interestDate", "TRCD": "bankCode"}
_PARTY_KEYS: Final = {"NAME": "NAME", "IBAN": "IBAN", "BBAN": "IBAN", "BIC": "BIC", "ADDR": "ADDR"}
_BROKEN_KEY: Final = re.compile(r"(/[A-Z]{0,8})\n([A-Z]{0,8}/)")


def join_lines(lines: Sequence[str], blank: str = " ") -> str:
    """Join lines: without a blank after a full line, with one after a shorter or longer one."""
    if len(lines) == 1:
        return lines[0]
    parts = []
    for line in lines[:-1]:
        parts.append(line)
        if len(line) != LINE_WIDTH:
            parts.append(blank)
    parts.append(lines[-1])
    return "".join(parts)


def _join_slash(lines: Sequence[str]) -> str:
    """Join lines as ``join_lines`` does, and where the break is within a keyword."""
    if len(lines) == 1:
        return lines[0]
    first = lines[0] if len(lines[0]) == _FIRST_LINE_WIDTH else None
    joined = join_lines(lines if first is None else lines[1:], "\n")
    joined = _BROKEN_KEY.sub(_mended_key, joined if first is None else first + joined)
    return joined.replace("\n", " ")


def _mended_key(found: re.Match[str]) -> str:
    mended = found[1] + found[2]
    return mended if _KEYS.match(mended) else found[0]


def read_slash(entry: Entry, lines: Sequence[str]) -> bool:
    """Fill the entry if the lines have this structure, and return whether they have.

    They are split at known keywords alone, so that a text with slashes (``factuur 12/3``) stays whole.
    """
    if not _START.match(" ".join(lines[:2])):
        return False
    joined = _join_slash(lines)
    if not _KEYS.search(joined):
        return False
    pieces = _KEYS.split(joined)
    if _AMOUNT_WORDS.issuperset(pieces[1::2]):
        return False
    values: dict[str, str] = {}
    party = ""
    amount_words = []
    loose = [pieces[0]]  # What no keyword owns.
    for key, raw in zip(pieces[1::2], pieces[2::2], strict=True):
        value = raw.strip().strip("/").strip()
        if key in _AMOUNT_WORDS:
            amount_words.append(f"/{key}{raw}")
            loose.append(_AMOUNT.sub("", raw, count=1).strip("/ "))
        elif key in _PARTIES:
            party = key
            if value and not value.startswith("ID/"):  # "/ORDP/ACME/" names the party at once.
                values.setdefault(f"{party}.NAME", value)
        elif key in _PARTY_KEYS:
            values.setdefault(f"{party}.{_PARTY_KEYS[key]}", value)
        elif value:  # Of a keyword that comes twice the first may be empty.
            values.setdefault(key, raw[1:] if key == "CNTP" else value)
    _apply_parties(entry, values)
    _apply_slash(entry, values)
    if amount_words:
        read_amount_words(entry, "".join(amount_words))
    if "REMI" not in values:
        entry.remittance = text.clean(" ".join(loose))
    return True


def _apply_parties(entry: Entry, values: dict[str, str]) -> None:
    name = account = bic = ultimate = None
    if "CNTP" in values:
        # Account, BIC, name and city; any may be empty, and the name may have a slash in it.
        account, bic, *names = [*values["CNTP"].split("/"), "", ""]
        names = [part for part in names if part]
        name = "/".join(names[:-1] if len(names) > 1 else names)
    if any("." in key for key in values):
        # What stands before any party is of the counterparty; a party behind it is the one on whose behalf it acts.
        sides = ("", "ORDP", "BENM") if entry.direction == "credit" else ("", "BENM", "ORDP")
        name = name or _first(values, "NAME", sides)
        account = account or _first(values, "IBAN", sides)
        bic = bic or _first(values, "BIC", sides)
        ultimate = values.get("ULTD.NAME" if entry.direction == "credit" else "ULTC.NAME")
    entry.counterparty_name = text.clean(name)
    entry.counterparty_account = text.account(account)
    entry.counterparty_bic = bank_code(bic)[0] if bic else None
    entry.ultimate_counterparty_name = text.clean(ultimate)


def _first(values: dict[str, str], kind: str, parties: Sequence[str]) -> str | None:
    return next((value for party in parties if (value := values.get(f"{party}.{kind}"))), None)


def _apply_slash(entry: Entry, values: dict[str, str]) -> None:
    for key, value in values.items():
        if key == "REMI":
            entry.remittance, found = _remittance(value)
            entry.structured_reference = entry.structured_reference or found
        elif key == "CDTRREF":
            if reference := text.reference(value):
                entry.structured_reference = _structured(reference)
        elif key in _REFERENCES:
            setattr(entry, _REFERENCES[key], text.reference(value))
        elif key == "RTRN":
            entry.return_reason = text.reference(value.partition("/")[0])
        elif key == "PURP":
            entry.purpose_code = text.reference(value.removeprefix("CD/"))
        elif key in _METADATA and (kept := text.reference(value)):
            entry.metadata[_METADATA[key]] = kept


def _remittance(value: str) -> tuple[str | None, str | None]:
    """Split the value of REMI into text and structured reference: ``USTD//text``, ``STRD/CUR/reference`` or text."""
    kind, separator, rest = value.partition("/")
    if separator and kind == "USTD":
        return text.clean(rest.strip("/")), None
    if separator and kind == "STRD":
        reference = text.reference(rest.strip("/").rpartition("/")[2])
        return None, _structured(reference) if reference else None
    return text.clean("" if value in {"USTD", "STRD"} else value), None


def _structured(reference: str) -> str:
    """Return an ISO 11649 reference without its blanks, another one as it stands."""
    return reference.replace(" ", "").upper() if is_creditor_reference(reference) else reference
