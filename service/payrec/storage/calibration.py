"""What decisions taught, and the decisions themselves as rows to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.domain.matching.rules import FEATURES, GroupLevel
from payrec.storage.database import Connection
from payrec.storage.history import matches_logged
from payrec.storage.rows import adapt, columns_of, copy_out, fetch_one, insert_statement
from payrec.tables.calibration import CalibrationVersion

DECISION_COLUMNS: Final = [
    "levels",
    "uniqueness",
    "rival_milli",
    "is_right",
    "fold_key",
]
"""Columns of the decisions, in the order of the CSV."""

_COLUMNS: Final = columns_of(CalibrationVersion)
_CURRENT: Final = f"SELECT {_COLUMNS} FROM calibration ORDER BY version DESC LIMIT 1"  # noqa: S608 - our own text
# Nobody may have looked at what a key accepts, so that vouches for no score; what it rejects or reverses was wrong all
# the same.
_BY_PERSONS: Final = """
    left(decided_by, 7) <> 'engine:' AND (status <> 'accepted' OR left(decided_by, 8) <> 'api_key:')
        AND decided_at > coalesce(%(since)s::timestamptz, '-infinity')
"""
_CAME: Final = "p.imported_at > coalesce(%(since)s::timestamptz, '-infinity')"
# What was imported was decided elsewhere, and counts from when it came, once it was learned of: each decision, and what
# would have been proposed instead of it.
_COUNT: Final = f"""
    SELECT (SELECT count(*) FROM match WHERE {_BY_PERSONS} AND created_by <> 'import') + (
        SELECT count(*) FROM imported_match p WHERE p.reviewed AND p.learned_change_id IS NOT NULL AND {_CAME}
    ) + (
        SELECT count(*) FROM imported_match_lesson s JOIN imported_match p ON p.match_id = s.match_id
        WHERE NOT s.agrees AND {_CAME}
    ) AS count
"""  # noqa: S608 - our own text
_DECIDED: Final = f"""
    SELECT m.id, m.decided_at AS at, m.levels, m.uniqueness, m.status = 'accepted' AS is_right,
        (SELECT max((a ->> 'score')::integer) FROM jsonb_array_elements(m.alternatives) a) AS rival_milli,
        l.expected_id, l.incoming_id
    FROM (
        SELECT id, decided_at, levels, uniqueness, alternatives, status FROM match
        WHERE {_BY_PERSONS} AND kind = 'one_to_one' AND levels IS NOT NULL
            AND status IN ('accepted', 'rejected', 'reversed')
        ORDER BY decided_at DESC, id DESC LIMIT %(limit)s
    ) m JOIN leg l ON l.match_id = m.id
"""  # noqa: S608 - our own text
# A decision that was taken back says no more that something else was wrong.
_IMPORTED: Final = f"""
    SELECT p.match_id, p.imported_at, s.levels, s.uniqueness, s.agrees AND m.status = 'accepted',
        s.rival_milli::integer, s.expected_id, s.incoming_id
    FROM imported_match p JOIN imported_match_lesson s ON s.match_id = p.match_id JOIN match m ON m.id = p.match_id
    WHERE {_CAME} AND (s.agrees OR m.status = 'accepted')
    ORDER BY p.imported_at DESC, p.match_id DESC LIMIT %(limit)s
"""  # noqa: S608 - our own text
_TAKEN_BACK: Final = f"""
    SELECT EXISTS (
        SELECT FROM match WHERE {_BY_PERSONS} AND kind = 'one_to_one'
            AND (status = 'reversed' OR (status = 'rejected' AND uniqueness = 'unique' AND score >= %(score_milli)s))
    ) AS found
"""  # noqa: S608 - our own text
_NEWEST: Final = f"""
    SELECT * FROM ({_DECIDED}) here UNION ALL SELECT * FROM ({_IMPORTED}) there
    ORDER BY at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608 - our own text
_GROUP: Final = [*FEATURES].index("group") + 1
_COUNT_WRONG: Final = f"""
    SELECT count(*) AS count FROM ({_NEWEST}) d
    WHERE NOT is_right AND uniqueness <> 'ambiguous' AND coalesce(levels[{_GROUP}], 0) = {GroupLevel.UNKNOWN.value}
"""  # noqa: S608 - our own text
# The newest first, and no more than are asked for; where in time they came decides nothing else. The fold is drawn of
# what both sides say, never of an id.
_READ: Final = f"""
    COPY (
        SELECT array_to_string(d.levels, ' '), d.uniqueness, d.rival_milli, d.is_right,
            hashtextextended(concat_ws('|', e.external_id, e.reference, e.amount_minor, e.due_on,
                i.booking_on, i.amount_minor, i.remittance, encode(i.identity, 'hex')), 0)
        FROM ({_NEWEST}) d
        JOIN expected_transaction e ON e.id = d.expected_id
        JOIN incoming_transaction i ON i.id = d.incoming_id
    ) TO STDOUT (FORMAT CSV)
"""  # noqa: S608 - our own text

_WITHHOLD: Final = """
    UPDATE match m SET sampled = true, version = m.version + (m.run_id IS DISTINCT FROM %(run_id)s)::int,
        change_id = %(change_id)s
    FROM leg l, unnest(%(expected)s::uuid[], %(incoming)s::uuid[]) AS s (expected_id, incoming_id)
    WHERE l.expected_id = s.expected_id AND l.incoming_id = s.incoming_id AND m.id = l.match_id
        AND m.status = 'proposed' AND m.kind = 'one_to_one' AND NOT m.sampled
"""
_WITHHELD: Final = "SELECT FROM changed"
_SAMPLE: Final = (
    matches_logged(
        _WITHHOLD,
        of="""m.id IN (
            SELECT l.match_id FROM leg l
            WHERE l.expected_id = ANY(%(expected)s::uuid[]) AND l.incoming_id = ANY(%(incoming)s::uuid[])
        )""",
    )
    + _WITHHELD
)


class CalibrationStore:
    """``calibration`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def current(self) -> dict[str, Any] | None:
        """Return the version in force."""
        return await fetch_one(self._connection, _CURRENT)

    async def add(self, values: Mapping[str, Any]) -> bool:
        """Add a version, which is in force from now on; False where somebody else has added this very version."""
        query = insert_statement(CalibrationVersion, values) + sql.SQL(" ON CONFLICT (version) DO NOTHING")
        return bool((await self._connection.execute(query, adapt(CalibrationVersion, values))).rowcount)

    async def count_decisions(self, *, since: datetime | None) -> int:
        """Return how many matches persons have decided after an instant."""
        row = await fetch_one(self._connection, _COUNT, {"since": since}) or {"count": 0}
        return int(row["count"])

    async def has_taken_back(self, *, since: datetime, score_milli: int) -> bool:
        """Tell whether anything was reversed after an instant, or rejected that nothing rivals, of a score so high."""
        parameters = {"since": since, "score_milli": score_milli}
        row = await fetch_one(self._connection, _TAKEN_BACK, parameters) or {"found": False}
        return bool(row["found"])

    async def count_wrong(self, *, since: datetime | None, limit: int) -> int:
        """Return how many were wrong of the decisions that ``read_decisions`` returns and that teach."""
        parameters = {"since": since, "limit": limit}
        row = await fetch_one(self._connection, _COUNT_WRONG, parameters) or {"count": 0}
        return int(row["count"])

    async def withhold(
        self, run_id: UUID, *, expected: Sequence[str], incoming: Sequence[str], change_id: UUID
    ) -> None:
        """Mark proposals of one item and one line, named by both in turn, as drawn for a review."""
        parameters = {
            "run_id": run_id,
            "expected": list(expected),
            "incoming": list(incoming),
            "change_id": change_id,
        }
        await self._connection.execute(_SAMPLE, parameters)

    async def read_decisions(self, *, since: datetime | None, limit: int) -> bytes:
        """Return the newest decisions of persons on proposals of one item and one line, as CSV without header.

        In the order of DECISION_COLUMNS; ``levels`` is one text with blanks between.
        """
        return await copy_out(self._connection, _READ, {"since": since, "limit": limit})
