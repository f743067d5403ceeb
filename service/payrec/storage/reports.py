"""Sums over everything that a tenant environment has. What each figure means is in ``service/reports.md``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

from payrec.constants.reports import AGEING_BOUNDS_DAYS
from payrec.domain.incoming_transactions import day_number
from payrec.models.reports import AgeingQuery, GroupedReportQuery, OpenBalancesQuery, ReportQuery
from payrec.storage.cut_off_relations import at_cut_off
from payrec.storage.database import Connection
from payrec.storage.deductions import AGED
from payrec.storage.filters import Condition, created, equalities
from payrec.storage.history_relations import at_instant, is_open
from payrec.storage.listing import PageRequest, SortKey
from payrec.storage.rows import fetch_all

SORTS: Final = {"name": SortKey(expression="name", descending=False, name="name")}
"""Groups come in the order of their names, those without one last."""

_DIRECTION: Final = "CASE o.direction WHEN 1 THEN 'credit' ELSE 'debit' END"
# Everything once, joined with the few that are neither matched nor untouched, then what is open: what is matched is the
# rest. Joining all allocations takes twice as long; it is done for an instant or a cut-off, of which there is no narrow
# set.
_EXPECTED: Final = """
    SELECT parts.* FROM (
        WITH counted AS MATERIALIZED (
            SELECT e.currency, e.direction, a.status, count(*) AS count,
                sum(e.amount_minor - e.settled_before_minor) AS minor, sum(e.settled_before_minor) AS settled_minor,
                coalesce(sum(a.allocated_minor), 0) AS allocated_minor
            FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id {touched}
            {stated} GROUP BY 1, 2, 3
        )
        SELECT 'stated' AS part, currency, direction, NULL AS status, sum(count) AS count, sum(minor) AS minor,
            sum(settled_minor) AS other_minor
        FROM counted GROUP BY 2, 3
        UNION ALL
        SELECT 'touched', currency, direction, status, count, minor, allocated_minor
        FROM counted WHERE status IN ('partially_matched', 'void')
        UNION ALL {open}
    ) parts
"""
_EXPECTED_TOUCHED: Final = "AND a.status IN ('partially_matched', 'void')"
_EXPECTED_OPEN: Final = f"""
    SELECT 'open', o.currency, {_DIRECTION}, NULL, count(*), sum(o.open_minor), 0
    FROM expected_open o {{joined}} {{where}} GROUP BY 2, o.direction
"""  # noqa: S608 - our own text
_EXPECTED_OPEN_THEN: Final = f"""
    SELECT 'open', a.currency, a.direction, NULL, sum(a.count), sum(a.minor - a.allocated_minor), 0
    FROM counted a WHERE {is_open(1)} GROUP BY 2, 3
"""  # noqa: S608 - our own text
_INCOMING: Final = """
    SELECT parts.* FROM (
        WITH counted AS MATERIALIZED (
            SELECT i.currency, i.direction, a.status, {pending} AS pending, count(*) AS count,
                sum(i.amount_minor) AS minor, sum(a.amount_minor) AS allowed_minor,
                sum(a.allocated_minor) AS allocated_minor
            FROM incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id {touched}
            {stated} GROUP BY 1, 2, 3, 4
        )
        SELECT 'stated' AS part, currency, direction, NULL AS status, sum(count) AS count, sum(minor) AS minor,
            0 AS other_minor
        FROM counted GROUP BY 2, 3
        UNION ALL
        SELECT 'touched', currency, direction, status, sum(count),
            sum(CASE WHEN status IN ('reversed', 'linked') THEN minor ELSE allowed_minor END), sum(allocated_minor)
        FROM counted WHERE status IN ('partially_matched', 'ignored', 'classified', 'reversed', 'linked')
        GROUP BY 2, 3, 4
        UNION ALL {open}
        UNION ALL
        SELECT 'returned', i.currency, i.direction, NULL, 0, sum(r.amount_minor), 0
        FROM (
            SELECT incoming_id AS id, amount_minor FROM reversal_link
            UNION ALL
            SELECT reversal_id, amount_minor FROM reversal_link
        ) r JOIN incoming_transaction i ON i.id = r.id
        {stated} GROUP BY 2, 3
    ) parts
"""
_INCOMING_TOUCHED: Final = "AND a.status IN ('partially_matched', 'ignored', 'classified', 'reversed', 'linked')"
_INCOMING_OPEN: Final = f"""
    SELECT CASE WHEN o.pending THEN 'pending' ELSE 'open' END, o.currency, {_DIRECTION}, NULL, count(*),
        sum(o.open_minor), 0
    FROM incoming_open o {{joined}} {{where}} GROUP BY o.pending, 2, o.direction
"""  # noqa: S608 - our own text
_INCOMING_OPEN_THEN: Final = f"""
    SELECT CASE WHEN a.pending THEN 'pending' ELSE 'open' END, a.currency, a.direction, NULL, sum(a.count),
        sum(coalesce(a.allowed_minor - a.allocated_minor, a.minor)), 0
    FROM counted a WHERE {is_open(2)} GROUP BY a.pending, 2, 3
"""  # noqa: S608 - our own text
# Seconds are told as coarsely as they matter, so that there are some thousands of them and not as many as payments.
_WAITS: Final = """
    SELECT told.* FROM (
        WITH waits AS (
            SELECT waited, sum(sum(count)) OVER (ORDER BY waited) AS reached, sum(sum(count)) OVER () AS matched
            FROM (
                SELECT CASE WHEN seconds < 3600 THEN greatest(seconds, 0)
                    WHEN seconds < 86400 THEN seconds / 60 * 60 ELSE seconds / 3600 * 3600 END AS waited, count
                FROM (
                    SELECT floor(date_part('epoch', a.updated_at - i.created_at))::bigint AS seconds, count(*) AS count
                    FROM allocation a JOIN incoming_transaction i ON i.id = a.transaction_id
                    {stated} AND a.side = 2 AND a.status = 'matched' GROUP BY 1
                ) counted
            ) rounded
            GROUP BY waited
        )
        SELECT (SELECT max(matched) FROM waits) AS count,
            (SELECT min(waited) FROM waits WHERE reached >= 0.5 * matched) AS median_seconds,
            (SELECT min(waited) FROM waits WHERE reached >= 0.9 * matched) AS p90_seconds
    ) told
"""
_MATCHES: Final = """
    SELECT m.currency, m.status, m.status = 'accepted' AND starts_with(m.decided_by, 'engine:') AS by_engine,
        count(*) AS count, sum(m.amount_minor) AS amount_minor
    FROM match m {where} GROUP BY 1, 2, 3
"""
_OF_ACCOUNT: Final = """
    EXISTS (
        SELECT FROM leg l
        LEFT JOIN expected_transaction e ON e.id IN (l.expected_id, l.contra_expected_id)
        LEFT JOIN incoming_transaction i ON i.id IN (l.incoming_id, l.contra_incoming_id)
        WHERE l.match_id = m.id AND %(account)s IN (e.account, i.account)
    )
"""
_DUE: Final = "coalesce(o.due_day, o.to_day)"
_BUCKET: Final = f"CASE WHEN {_DUE} IS NULL THEN -1 ELSE width_bucket(%(today)s - {_DUE}, %(bounds)s::int[]) END"
_STATED: Final = {
    "e": "JOIN expected_transaction e ON e.id = o.transaction_id",
    "i": "JOIN incoming_transaction i ON i.id = o.transaction_id",
}
"""What open rows do not have themselves."""
_AGEING: Final = f"""
    SELECT {{name}} AS name, o.currency, {_DIRECTION} AS direction, {_BUCKET} AS bucket,
        count(*) AS count, sum(o.open_minor) AS open_minor
    FROM ({AGED}) o {{stated}} {{where}} GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - our own text
_BALANCES: Final = f"""
    SELECT e.{{name}} AS name, o.currency, {_DIRECTION} AS direction, 1 AS side,
        count(*) AS count, sum(o.open_minor) AS open_minor
    FROM expected_open o {_STATED["e"]} {{expected}} GROUP BY 1, 2, 3
    UNION ALL
    SELECT i.{{name}}, o.currency, {_DIRECTION}, 2, count(*), sum(o.open_minor)
    FROM incoming_open o {_STATED["i"]} {{incoming}} GROUP BY 1, 2, 3
"""  # noqa: S608 - our own text
# The groups of a page first, then what each of them has: a group is a name with a currency and a direction.
_PAGE: Final = """
    SELECT told.* FROM (
        WITH summed AS MATERIALIZED ({summed}), page AS (
            SELECT DISTINCT name COLLATE "C" AS name, currency, direction FROM summed {after}
            ORDER BY 1 NULLS LAST, 2, 3 LIMIT %(row_count)s
        )
        SELECT s.* FROM page p JOIN summed s
            ON s.currency = p.currency AND s.direction = p.direction AND s.name IS NOT DISTINCT FROM p.name
    ) told ORDER BY name COLLATE "C" NULLS LAST, currency, direction
"""
_AFTER: Final = """
    WHERE (name IS NULL, coalesce(name, '') COLLATE "C", currency, direction)
        > (%(after_name)s::text IS NULL, coalesce(%(after_name)s::text, '') COLLATE "C",
            %(after_currency)s::text, %(after_direction)s::text)
"""
_EXCEPTIONS: Final = f"""
    SELECT 1 AS side, false AS duplicate, w.reason, o.currency, {_DIRECTION} AS direction, count(*) AS count,
        sum(o.open_minor) AS open_minor, %(today)s - min({_DUE}) AS oldest_days
    FROM expected_open o LEFT JOIN open_reason w ON w.side = 1 AND w.transaction_id = o.transaction_id
    {{expected_stated}} {{expected}} GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT 2, o.duplicate, w.reason, o.currency, {_DIRECTION}, count(*), sum(o.open_minor),
        %(today)s - min(o.booking_day)
    FROM incoming_open o LEFT JOIN open_reason w ON w.side = 2 AND w.transaction_id = o.transaction_id
    {{incoming_stated}} {{incoming}} GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608 - our own text
_TABLES: Final = (
    "expected_transaction",
    "incoming_transaction",
    "allocation",
    "match",
    "open_reason",
    "reversal_link",
    "expected_open",
    "incoming_open",
)
"""What the statements read; none of them begins with WITH, so that relations of an instant may come before it."""

_NAMES: Final = {"counterparty": "counterparty_name", "account": "account"}


class ReportStore:
    """Adds up a tenant environment, as it is or as it was at an instant, each time in one statement over all of it.

    With ``cut_off`` it is what counts at the end of that day, whose last instant is ``cut_off_until``.
    """

    def __init__(
        self, connection: Connection, *, as_of: datetime | None, cut_off: date | None, cut_off_until: datetime | None
    ) -> None:
        self._connection = connection
        self._as_of = as_of
        self._cut_off = {} if cut_off is None else {"cut_off": cut_off, "cut_off_until": cut_off_until}
        self._has_narrow_sets = as_of is None and cut_off is None

    async def expected(self, query: ReportQuery) -> list[dict[str, Any]]:
        """Return parts that count the expected transactions by currency and direction.

        ``stated`` is all of them (``minor`` less what was settled before, which is ``other_minor``), ``open`` what is
        open, and ``touched`` those that are matched in part or void, of which ``other_minor`` is what is matched.
        """
        where, given = _stated_conditions(query, "e"), _open_parts(query, "e")
        now = {"touched": _EXPECTED_TOUCHED, "open": _EXPECTED_OPEN.format(**given)}
        then = {"touched": "", "open": _EXPECTED_OPEN_THEN}
        statement = _EXPECTED.format(stated=_where(where), **(now if self._has_narrow_sets else then))
        return await self._fetch(statement, where)

    async def incoming(self, query: ReportQuery) -> list[dict[str, Any]]:
        """Return the same of the incoming ones.

        ``pending`` is apart from ``open``, ``touched`` are all others that are neither unmatched nor matched, less what
        was taken back unless that is all; ``returned`` is what was taken back, and the returns' own amounts.
        """
        where, given = _stated_conditions(query, "i"), _open_parts(query, "i")
        now = {"touched": _INCOMING_TOUCHED, "open": _INCOMING_OPEN.format(**given), "pending": "false"}
        then = {"touched": "", "open": _INCOMING_OPEN_THEN, "pending": "i.pending"}
        statement = _INCOMING.format(stated=_where(where), **(now if self._has_narrow_sets else then))
        return await self._fetch(statement, where)

    async def waits(self, query: ReportQuery, *, since: datetime) -> dict[str, Any]:
        """Return how many incoming transactions are matched, and in how many seconds half and most of them were.

        Of those that were stored from ``since`` on, where the query does not say from when.
        """
        where = _stated_conditions(query.model_copy(update={"created_from": query.created_from or since}), "i")
        return (await self._fetch(_WAITS.format(stated=_where(where)), where))[0]

    async def matches(self, query: ReportQuery) -> list[dict[str, Any]]:
        """Return counts and sums of the matches by currency, status, and whether an engine has accepted them."""
        where = equalities(query, {"currency": "m.currency"})
        where += created(query, "m")
        if query.account is not None:
            where.append((_OF_ACCOUNT, {"account": query.account}))
        return await self._fetch(_MATCHES.format(where=_where(where)), where)

    async def ageing(self, query: AgeingQuery, page: PageRequest, *, today: date) -> list[dict[str, Any]]:
        """Return the open expected transactions of a page of groups, by bucket: -1 without a due date, 0 not due."""
        where = _open_conditions(query, "e")
        if query.direction is not None:
            where.append(("o.direction = %(direction)s", {"direction": 1 if query.direction == "credit" else -1}))
        summed = _AGEING.format(
            name=f"e.{_NAMES[query.group_by]}" if query.group_by else "NULL::text",
            stated=_STATED["e"] if query.group_by or _needs_stated(query) else "",
            where=_where(where),
        )
        return await self._page(summed, page, where, today=day_number(today), bounds=list(AGEING_BOUNDS_DAYS))

    async def open_balances(self, query: OpenBalancesQuery, page: PageRequest) -> list[dict[str, Any]]:
        """Return what is open of a page of groups, by side; what is pending does not count."""
        expected, incoming = _open_conditions(query, "e"), _open_conditions(query, "i")
        incoming.append(("NOT o.pending", {}))
        summed = _BALANCES.format(name=_NAMES[query.group_by], expected=_where(expected), incoming=_where(incoming))
        return await self._page(summed, page, expected)

    async def exceptions(self, query: ReportQuery, *, today: date) -> list[dict[str, Any]]:
        """Return what is open by side, currency, direction, duplicates apart, and by the number of what a run has said.

        ``oldest_days`` are those since the earliest booking day or due day.
        """
        expected, incoming = _open_conditions(query, "e"), _open_conditions(query, "i")
        statement = _EXCEPTIONS.format(
            expected_stated=_STATED["e"] if _needs_stated(query) else "",
            incoming_stated=_STATED["i"] if _needs_stated(query) else "",
            expected=_where(expected),
            incoming=_where(incoming),
        )
        return await self._fetch(statement, expected, today=day_number(today))

    async def _fetch(self, statement: str, where: Sequence[Condition], **parameters: Any) -> list[dict[str, Any]]:
        given = {name: value for _, found in where for name, value in found.items()} | parameters | self._cut_off
        if self._cut_off:
            statement = at_cut_off(statement)
        if self._as_of is not None:
            statement = at_instant(*_TABLES, whole=True) + statement
            given["as_of"] = self._as_of
        return await fetch_all(self._connection, statement, given)

    async def _page(
        self, summed: str, page: PageRequest, where: Sequence[Condition], **parameters: Any
    ) -> list[dict[str, Any]]:
        given = {**parameters, "row_count": page.limit + 1}
        if page.after is not None:
            currency, direction = str(page.after["id"]).split("/")
            given |= {"after_name": page.after["value"], "after_currency": currency, "after_direction": direction}
        after = _AFTER if page.after is not None else ""
        return await self._fetch(_PAGE.format(summed=summed, after=after), where, **given)


def _open_parts(query: ReportQuery, alias: str) -> dict[str, str]:
    """Return what narrows the open rows of a report, and joins what that needs."""
    joined = _STATED[alias] if _needs_stated(query) else ""
    return {"joined": joined, "where": _where(_open_conditions(query, alias))}


def _stated_conditions(query: ReportQuery, alias: str) -> list[Condition]:
    return equalities(query, {"currency": f"{alias}.currency"}) + _stated_filters(query, alias)


def _open_conditions(query: ReportQuery | GroupedReportQuery, alias: str) -> list[Condition]:
    return equalities(query, {"currency": "o.currency"}) + _stated_filters(query, alias)


def _stated_filters(query: ReportQuery | GroupedReportQuery, alias: str) -> list[Condition]:
    return equalities(query, {"account": f"{alias}.account"}) + created(query, alias)


def _needs_stated(query: ReportQuery | GroupedReportQuery) -> bool:
    return bool(_stated_filters(query, "e"))


def _where(conditions: Sequence[Condition]) -> str:
    return f"WHERE {' AND '.join(text for text, _ in conditions)}" if conditions else ""
