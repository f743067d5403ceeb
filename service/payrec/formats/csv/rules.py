"""What is known of a file, put together: the rules for its rows, and the dialect that is told to the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

from payrec.constants import METADATA_ENTRIES_MAX, METADATA_KEY_LENGTH_MAX, TEXT_LENGTH_MAX
from payrec.formats.base import ReadOptions
from payrec.formats.csv.cells import RowRules
from payrec.formats.csv.columns import ColumnFinder
from payrec.formats.csv.dialect import Layout
from payrec.formats.csv.profile import COLUMN_ROLES, compile_match
from payrec.formats.csv.survey import Settled, Survey
from payrec.formats.csv.values import unwrap
from payrec.formats.csv.words import fold, mark_word
from payrec.formats.text import clean

_PENDING_STATUS: Final = (
    "pending|vorgemerkt|vormerkung|ausstehend|attente|pendiente|attesa|sospeso|pendente|reserver|gereserveerd|oczekuj"
    "|^(open$|offen$|openstaand|in bearbeitung|in behandeling|in afwachting|. venir|en cours|en proceso|in corso"
    "|non contabilizzato|em processamento|reserved|authori[sz]ed|submitted|awaiting|processing|in progress|uncleared"
    "|unposted|not posted|scheduled|on hold|blokada|w toku|.ekaj.c|neza..tov|v.ntande|venter|afventer|f.gg.ben|z.rolt"
    "|laukiama|rezervuota)"
)
"""What a status column says of a row that is not booked, as a pattern of a profile.

A point is a letter with or without its accent.
"""

_NOT_DONE_STATUS: Final = (
    "^(reverted|failed|declined|denied|rejected|cancell?ed|expir|void|bounced|unsuccessful|incomplete|uncaptured"
    "|requires.|customer.approval.denied|blocked|abgelehnt|fehlgeschlagen|verweigert|storniert"
    "|abgebrochen|abgelaufen|refus|annul|.chou|geweigerd|geannuleerd|mislukt|verlopen|afgewezen|rechazad|denegad"
    "|cancelad|fallid|caducad|rifiutat|fallit|scadut|recusad|odrzucon|anulowan|nieudan|slettet|afvist|avvist|raderad"
    "|avvisad|makulerad)"
)
"""What a status column says of a row that never moved money, as a pattern of a profile."""

_NO_IMPACT: Final = "^(memo|no |kein)"
"""What PayPal's column about the balance says of a row that moves none: an invoice that was sent, an authorization."""

_NO_EVENT: Final = (
    "^(received|authori[sz]ed|authori[sz]edpending|refused|error|cancell?ed|expired|retry|retried|reversed|sentforsettle"
    "|sentforrefund|capturefailed|refundfailed|refundauthori[sz]ed|notificationofchargeback|notificationoffraud"
    "|requestforinformation|informationsupplied)$|externally"
)
"""What Adyen's reports on the life of a payment call its stages that moved nothing on the merchant's balance.

What was settled externally came from the acquirer and never was on it. A stage that is not known stays a line: there
are more than sixty, and a line too many is seen where one too few is not (docs.adyen.com/reporting).
"""

NOT_DONE_ROW: Final = "csv_not_done_row"

_KEPT: Final = (
    "footerRows",
    "dateFormat",
    "sign",
    "impliedDecimals",
    "direction",
    "skipWhen",
    "pendingWhen",
    "metadata",
)
"""Keys of a profile that no detection touches."""


def settle(layout: Layout, profile: Mapping[str, Any], options: ReadOptions) -> Settled:
    """Say what the rows need not prove."""
    return Settled(
        decimal="decimal" in profile or "impliedDecimals" in profile,
        dates=options.date_order is not None or "dateOrder" in profile or "dateFormat" in profile,
        account=not layout.account_doubt,
    )


def make_rules(layout: Layout, profile: Mapping[str, Any], survey: Survey, options: ReadOptions) -> RowRules:
    """Put the layout, the profile and what the rows proved together.

    Raises
    ------
    UnreadableFileError
        ``csv_column_missing``, ``csv_ambiguous_decimals``, ``csv_ambiguous_dates``.

    """
    columns = {role: list(indexes) for role, indexes in layout.columns.items()}
    account = layout.account
    is_other = layout.account_doubt and (
        survey.accounts_differ or (account is not None and survey.account not in (None, account))
    )
    if is_other:
        columns["counterpartyAccount"] = columns.pop("account")
    names = layout.table.names
    finder = ColumnFinder(names, layout.width)
    headings = names or []
    header = [] if layout.table.header is None else layout.table.rows[layout.table.header]
    filled = max((i + 1 for i, cell in enumerate(header) if unwrap(cell).strip()), default=layout.width)
    settled = settle(layout, profile, options)
    decimal = profile.get("decimal") or (None if settled.decimal else survey.decimal())
    date_order = options.date_order or profile.get("dateOrder") or (None if settled.dates else survey.date_order())
    rules = RowRules(
        columns=columns,
        width=layout.width,
        width_least=max(filled, 1),
        decimal=decimal,
        date_order=date_order,
        date_format=profile.get("dateFormat"),
        implied_decimals=profile.get("impliedDecimals"),
        inverted=profile.get("sign") == "inverted",
        currency=layout.currency,
        account=account,
        one_counterparty=is_other and not survey.accounts_differ,
        footer_rows=profile.get("footerRows", 0),
        preamble_balances=layout.preamble_balances,
        header=[fold(unwrap(cell)) for cell in header],
    )
    direction = profile.get("direction")
    if direction is not None:
        columns["mark"] = [finder.find(direction["column"], "/profile/direction/column")]
        for side in ("credit", "debit"):
            if side in direction:
                setattr(rules, f"{side}_marks", frozenset(map(mark_word, direction[side])))
    for position, rule in enumerate(profile.get("skipWhen", ())):
        index = finder.find(rule["column"], f"/profile/skipWhen/{position}/column")
        rules.skip.append((index, compile_match(rule["matches"]), rule["rule"]))
    if "skipWhen" not in profile:
        told = (("status", _NOT_DONE_STATUS), ("impact", _NO_IMPACT), ("event", _NO_EVENT))
        rules.skip += [(columns[role][0], compile_match(says), NOT_DONE_ROW) for role, says in told if role in columns]
    pending = profile.get("pendingWhen")
    if pending is not None:
        rules.pending = (
            finder.find(pending["column"], "/profile/pendingWhen/column"),
            compile_match(pending["matches"]),
        )
    elif "status" in columns:
        rules.pending = (columns["status"][0], compile_match(_PENDING_STATUS))
    if "metadata" in profile:
        kept = [finder.find(name, f"/profile/metadata/{i}") for i, name in enumerate(profile["metadata"])]
    else:
        kept = columns.get("reference", [])[:METADATA_ENTRIES_MAX]
    rules.metadata = [(_key(headings, index), index) for index in kept]
    if layout.table.delimiter == ",":
        used = {*kept, *(index for index, _, _ in rules.skip), *(rules.pending or ())[:1], *chain(*columns.values())}
        rules.nameless = [index for index in range(filled, layout.width) if index not in used]
    return rules


def _key(headings: Sequence[str], index: int) -> str:
    name = clean(headings[index]) if index < len(headings) else None
    return name if name is not None and len(name) <= METADATA_KEY_LENGTH_MAX else f"column {index}"


def _named(layout: Layout, index: int) -> int | str:
    """Return the heading where it finds the column again, else the column's number."""
    names = layout.table.names
    if names is None or index >= len(names) or not names[index] or len(names[index]) > TEXT_LENGTH_MAX:
        return index
    return names[index] if ColumnFinder(names, layout.width).find(names[index], "") == index else index


def make_dialect(layout: Layout, form: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was detected as a profile that would read the file alike; ``form`` is how its rows were had."""
    header = layout.table.header
    dialect: dict[str, Any] = {**form, "headerRow": None if header is None else layout.table.lines[header]}
    if layout.currency is not None:
        dialect["currency"] = layout.currency
    dialect.update((key, profile[key]) for key in _KEPT if key in profile)
    return dialect


def complete_dialect(dialect: dict[str, Any], layout: Layout, rules: RowRules) -> None:
    """Add to the dialect what the rows proved."""
    if rules.decimal is not None:
        dialect["decimal"] = rules.decimal
    if rules.date_order is not None:
        dialect["dateOrder"] = rules.date_order
    if rules.account is not None and "account" not in rules.columns:
        dialect["account"] = rules.account
    columns: dict[str, Any] = {}
    for role in COLUMN_ROLES:
        if role in rules.columns:
            found = [_named(layout, index) for index in rules.columns[role]]
            columns[role] = found if role == "remittance" else found[0]
    dialect["columns"] = columns
    if "mark" in rules.columns and "direction" not in dialect:
        dialect["direction"] = {"column": _named(layout, rules.columns["mark"][0])}
    if rules.pending is not None and "pendingWhen" not in dialect:
        dialect["pendingWhen"] = {"column": _named(layout, rules.pending[0]), "matches": rules.pending[1].pattern}
    if rules.skip and "skipWhen" not in dialect:
        dialect["skipWhen"] = [
            {"column": _named(layout, index), "matches": pattern.pattern, "rule": rule}
            for index, pattern, rule in rules.skip
        ]
    if rules.metadata and "metadata" not in dialect:
        dialect["metadata"] = [_named(layout, index) for _, index in rules.metadata]
