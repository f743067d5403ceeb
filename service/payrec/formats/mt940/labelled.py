"""Field 86 with labels: ``SEPA OVERBOEKING IBAN: … BIC: … NAAM: …`` (ABN AMRO), ``… REK: …/NAAM: …`` (Knab).

And Polish ones: ``… Z RACH.: …; OD: …; TYT.: …; TNR: …`` (mBank).
"""

from __future__ import annotations

import re
from typing import Final

from payrec.domain.statements import Entry
from payrec.formats import text
from payrec.formats.mt940.lines import bank_code

_LABEL: Final = re.compile(
    r"(?<!\S)(IBAN|BIC|NAAM|OMSCHRIJVING|KENMERK|BETALINGSKENM\.|MACHTIGING|INCASSANT|ID DEBITEUR):(?=\s)"
)
_REFERENCES: Final = {
    "KENMERK": "end_to_end_id",
    "BETALINGSKENM.": "structured_reference",
    "MACHTIGING": "mandate_id",
}
_METADATA: Final = {"INCASSANT": "creditorId", "ID DEBITEUR": "debtorId"}
_IBAN: Final = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_ACCOUNT_AND_NAME: Final = re.compile(rf"(?<!\S)REK: ?({_IBAN.pattern})/NAAM: ?([^\n]*)\Z")

_POLISH: Final = re.compile(
    r";\s+(?:Z|NA) RACH\.:\s*([0-9 ]{26,40});\s+(?:OD|DLA):\s*([^;]*);\s+TYT\.:\s*(.*?)(?:;\s+TNR:\s*([0-9.]+)\s*)?\Z",
    re.DOTALL,
)


def read_labelled(entry: Entry, joined: str) -> bool:
    """Fill the entry if joined lines have this structure, with an IBAN in its place, and return whether they have."""
    if joined.startswith("SEPA "):
        return _read_labels(entry, joined)
    found = _ACCOUNT_AND_NAME.search(joined)
    if found is None:
        return _read_polish(entry, joined)
    entry.counterparty_account = text.account(found[1])
    entry.counterparty_name = text.clean(found[2])
    entry.remittance = text.clean(joined[: found.start()])
    return True


def _read_polish(entry: Entry, joined: str) -> bool:
    found = _POLISH.search(joined)
    if found is None:
        return False
    entry.counterparty_account = text.account(found[1])
    entry.counterparty_name = text.clean(found[2])
    entry.remittance = text.clean(found[3])
    entry.bank_reference = entry.bank_reference or text.reference(found[4])
    if kind := text.clean(joined[: found.start()]):
        entry.metadata["bookingText"] = kind
    return True


def _read_labels(entry: Entry, joined: str) -> bool:
    kind, *pieces = _LABEL.split(joined)
    values: dict[str, str] = {}
    last = None
    for label, value in zip(pieces[::2], pieces[1::2], strict=True):
        if last is not None and label in values:
            values[last] += f"{label}:{value}"  # What somebody writes may have a label in it.
            continue
        values[label] = value
        last = label
    iban = text.account(values.get("IBAN"))
    if iban is None or _IBAN.fullmatch(iban) is None:
        return False
    entry.counterparty_account = iban
    entry.counterparty_bic = bank_code(values["BIC"])[0] if "BIC" in values else None
    entry.counterparty_name = text.clean(values.get("NAAM"))
    entry.remittance = text.clean(values.get("OMSCHRIJVING"))
    for label, name in _REFERENCES.items():
        if reference := text.reference(values.get(label)):
            setattr(entry, name, reference)
    kept = {"bookingText": text.clean(kind)} | {name: text.reference(values.get(at)) for at, name in _METADATA.items()}
    entry.metadata |= {name: value for name, value in kept.items() if value}
    return True
