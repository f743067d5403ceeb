"""What is known of decisions, as it is stored: posted in their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from payrec.constants.match_imports import CREATED_BY_IMPORT
from payrec.domain.period_locks import OpenDays
from payrec.domain.posting_ledger import BESIDE, Ledger, Part, Posted, Returned
from payrec.domain.postings import Adjusted, Codes, End, Settlement, read, sign_of, taken_of, told
from payrec.domain.references import account_identifier
from payrec.domain.scope import TenantScope, today
from payrec.models.tenants import PostingSettings
from payrec.storage.posting_sealing import CLASSIFIED, REJECTED, REOPENED, RESTORED, REVERSED, UPDATED, Decision

LINE_PLACE: Final = 5
"""Where a leg as it is read has the columns of its line, then those of its contra line, and of its two items."""

_LINE_COLUMNS: Final = ("id", "direction", "currency", "account", "whole_minor", "beside_minor", "moved_currency")


class Facts:
    """What is known of decisions, to be posted in their order."""

    def __init__(
        self,
        *,
        scope: TenantScope,
        matches: Mapping[UUID, Mapping[str, Any]],
        legs: Mapping[UUID, Sequence[tuple[Any, ...]]],
        lines: Mapping[int, Mapping[str, Any]],
        returned: Sequence[Returned],
    ) -> None:
        self._scope = scope
        self._matches = matches
        self._legs = legs
        self._lines = lines
        self._returned = returned
        self._of_return: dict[UUID, list[Returned]] = defaultdict(list)
        self._of_match: dict[UUID, list[Returned]] = defaultdict(list)
        self._ended: dict[UUID, list[Returned]] = defaultdict(list)
        for one in returned:
            if one.until_change_id is not None:
                self._ended[one.back.id].append(one)
                continue
            self._of_return[one.back.id].append(one)
            if one.match_id is not None:
                self._of_match[one.match_id].append(one)

    def in_parts(self) -> list[UUID]:
        """Return the lines of which a provider has kept something, and a decision takes a part."""
        taken = [end for match_id in self._legs for end in taken_of(*self._match(match_id))]
        classified = self._lines.values()
        taken += [(_line_end(*(line[name] for name in _LINE_COLUMNS)), line["amount_minor"]) for line in classified]
        taken += [moved for one in self._returned for moved in one.moved]
        return [end.id for end, minor in taken if end.beside_minor and minor != end.whole_minor]

    def post(self, decisions: Iterable[Decision], ledger: Ledger) -> None:
        """Post decisions; an event of what there is not, or is not to be posted, posts nothing."""
        for decision in decisions:
            if decision.type in {UPDATED, REOPENED}:
                self._post_return(decision, ledger)
            elif decision.type in {CLASSIFIED, RESTORED}:
                self._post_line(decision, ledger)
            elif decision.resource_id in self._matches:
                self._post_match(decision, self._matches[decision.resource_id], ledger)

    def _post_return(self, decision: Decision, ledger: Ledger) -> None:
        if decision.type == REOPENED:
            for returned in self._ended[decision.resource_id]:
                ledger.release(returned)
            return
        for returned in self._of_return[decision.resource_id]:
            if returned.match_id is None:
                ledger.offset(returned)
            else:
                ledger.give_back(returned)

    def _post_match(self, decision: Decision, match: Mapping[str, Any], ledger: Ledger) -> None:
        match_id = decision.resource_id
        day = self._day(match["effective_on"], decision)
        if decision.type == REVERSED:
            settlements, _ = self._match(match_id)
            ledger.reverse(match_id, match["reversed_on"] or day, self._of_match[match_id], settlements)
        elif decision.type == REJECTED:
            for returned in self._of_match[match_id]:
                ledger.offset(returned)
        elif not is_elsewhere(match):
            ledger.accept(match_id, *self._match(match_id), day)
            for returned in self._of_match[match_id]:
                ledger.give_back(returned)

    def _match(self, match_id: UUID) -> tuple[list[Settlement], list[Adjusted]]:
        return match_of(self._matches[match_id], self._legs[match_id])

    def _post_line(self, decision: Decision, ledger: Ledger) -> None:
        line = self._lines.get(decision.position)
        if line is None:
            return
        on = line["effective_on"] or line["booking_on"]
        if decision.type == RESTORED:
            ledger.restore(decision.resource_id, on)
            return
        ledger.classify(
            _line_end(*(line[name] for name in _LINE_COLUMNS)),
            line["amount_minor"],
            category=line["category"],
            code=line["posting_code"],
            change_id=line["change_id"],
            on=on,
        )

    def _day(self, effective_on: date | None, decision: Decision) -> date:
        """Return the day of a decision; items alone may have none, then it is that on which it was made."""
        return effective_on or today(self._scope, decision.at)


def is_elsewhere(row: Mapping[str, Any]) -> bool:
    """Tell whether a match was decided elsewhere, by who made it."""
    return bool(row["created_by"] == CREATED_BY_IMPORT)


def match_of(match: Mapping[str, Any], legs: Sequence[Sequence[Any]]) -> tuple[list[Settlement], list[Adjusted]]:
    """Return what a match settles, by its legs as ``PostingSealingStore.legs`` has them, and its adjustments."""
    adjustments = match["adjustments"] or ()
    adjusted = [Adjusted(given["type"], UUID(given["id"]), given["minor"]) for given in adjustments]
    return [_settlement(leg) for leg in legs], adjusted


def codes_of(settings: PostingSettings) -> Codes:
    """Return the codes of settings."""
    return Codes(
        suspense=settings.suspense_code,
        receivable=settings.receivable_code,
        payable=settings.payable_code,
        accounts={account_identifier(given.account): given.code for given in settings.accounts},
        adjustments={given.type: given.code for given in settings.adjustments},
        categories={given.category: given.code for given in settings.categories},
    )


def _line_end(
    line_id: UUID,
    direction: str,
    currency: str,
    account: str | None,
    whole_minor: int,
    beside_minor: int,
    moved_currency: str | None,
) -> End:
    return End(
        id=line_id,
        is_line=True,
        sign=sign_of(direction, is_line=True),
        currency=currency,
        name=account,
        whole_minor=whole_minor,
        beside_minor=beside_minor,
        moved_currency=moved_currency,
    )


def _settlement(leg: Sequence[Any]) -> Settlement:
    """Return a leg. Its ends are opposite, whatever was changed afterwards."""
    (_, taken_minor, settled_minor, settled_currency, currency) = leg[:LINE_PLACE]
    count = len(_LINE_COLUMNS)
    line, contra_line, items = (leg[LINE_PLACE + n * count :] for n in range(3))
    item, contra_item = items[:3], items[3:]
    if line[0] is not None:
        taken = _line_end(*line[:count])
    else:
        # Two items: what is taken of the one is what is settled of the other.
        sign = -sign_of(item[1], is_line=False)
        taken = End(id=contra_item[0], is_line=False, sign=sign, currency=currency, name=contra_item[2])
    if item[0] is not None:
        settled = End(id=item[0], is_line=False, sign=-taken.sign, currency=settled_currency, name=item[2])
    else:
        settled = _line_end(*contra_line[:count])._replace(sign=-taken.sign)
    return Settlement(taken, settled, taken_minor, settled_minor)


def _part(row: Mapping[str, Any]) -> Part:
    taken = _line_end(*(row[name] for name in _LINE_COLUMNS))
    ends = {row["expected_id"], row["id"]}
    own = [a for a in row["adjustments"] or () if UUID(a["id"]) in ends and (None in ends or a["minor"] < 0)]
    kind = own[0]["type"] if own else BESIDE
    if row["expected_id"] is None:
        return Part(taken=taken, taken_minor=row["amount_minor"], beside=kind)
    currency = row["settled_currency"] or row["currency"]
    settled = End(id=row["expected_id"], is_line=False, sign=-taken.sign, currency=currency, name=row["external_id"])
    amounts = {"taken_minor": row["amount_minor"], "settled_minor": row["settled_minor"]}
    return Part(taken=taken, settled=settled, beside=kind, **amounts)


def returned_of(rows: Sequence[Mapping[str, Any]], open_days: OpenDays) -> Returned:
    """Return links of one change; they count from the day on which both sides are booked, or the first open one."""
    first = rows[0]
    booked: date = max(row["booking_on"] for row in rows)
    accounts = {row[name] for row in rows for name in ("account", "back_account")}
    return Returned(
        change_id=first["change_id"],
        match_id=first["match_id"],
        until_change_id=first["until_change_id"],
        effective_on=open_days.day(booked, None, accounts) or booked,
        parts=tuple(_part(row) for row in rows),
        back=_line_end(*(first[f"back_{name}"] for name in _LINE_COLUMNS)),
    )


def stored_of(row: Mapping[str, Any]) -> Posted:
    """Return a posting as it is stored."""
    charged = {UUID(line_id): minor for line_id, minor in (row["charged"] or {}).items()}
    return Posted(**{**row, "lines": tuple(read(line) for line in row["lines"]), "charged": charged})


def row_of(posted: Posted) -> dict[str, Any]:
    """Return a posting as it is to be stored."""
    return {
        "sequence": posted.sequence,
        "source_id": posted.source_id,
        "change_id": posted.change_id,
        "reverses_sequence": posted.reverses_sequence,
        "reverses_id": posted.reverses_id,
        "effective_on": posted.effective_on,
        "codes_version": posted.codes_version,
        "kind": posted.kind,
        "lines": [told(line) for line in posted.lines],
        "charged": {str(line_id): minor for line_id, minor in posted.charged.items()} or None,
    }
