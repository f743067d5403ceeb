"""Numbers of lines that pages of a statement show, each given once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from payrec.domain.pages import PageLine
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

_NAMED: Final = "line, page, opening_minor, occurrence"
_ASKED: Final = "unnest(%(lines)s::bytea[], %(pages)s::bigint[], %(openings)s::bigint[], %(occurrences)s::bigint[])"
# Each looked up by its index, whatever the planner thinks of a table without statistics.
_FIND: Final = f"""
    SELECT given.number FROM {_ASKED} WITH ORDINALITY AS a ({_NAMED}, place) LEFT JOIN LATERAL (
        SELECT p.number FROM page_line p
        WHERE p.line = a.line AND p.page = a.page AND p.opening_minor = a.opening_minor
            AND p.occurrence = a.occurrence LIMIT 1
    ) given ON true
    ORDER BY a.place
"""  # noqa: S608 - fragments of our own
_GIVE: Final = f"""
    WITH counted AS (
        SELECT a.*, row_number() OVER (PARTITION BY a.line ORDER BY a.page, a.opening_minor, a.occurrence) AS place
        FROM {_ASKED} AS a ({_NAMED})
    )
    INSERT INTO page_line ({_NAMED}, number)
    SELECT c.line, c.page, c.opening_minor, c.occurrence, c.place + coalesce(last.number, -1) AS number
    FROM counted c LEFT JOIN LATERAL (
        SELECT p.number FROM page_line p WHERE p.line = c.line ORDER BY p.number DESC LIMIT 1
    ) last ON true
    -- In one order for everybody, and the first number of a line first: who waits for it gets none behind it.
    ORDER BY c.line, number
    ON CONFLICT DO NOTHING
    RETURNING {_NAMED}, number
"""  # noqa: S608 - same

_Named = tuple[bytes, int, int, int]


class PageLineStore:
    """``page_line`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def numbers(self, lines: Sequence[PageLine]) -> list[int]:
        """Return the number of each line among the equal ones of its statement; give those that have none one."""
        named = [(line.key, line.page.number, line.page.opening_minor, line.occurrence) for line in lines]
        known: dict[_Named, int] = {}
        missing = list(dict.fromkeys(named))
        while missing:
            found = await fetch_all(self._connection, _FIND, _columns(missing))
            numbers = [row["number"] for row in found]
            known |= {name: number for name, number in zip(missing, numbers, strict=True) if number is not None}
            missing = [name for name, number in zip(missing, numbers, strict=True) if number is None]
            if missing:
                # What somebody else gives at the same time is waited for, and looked up: numbers go on behind it.
                given = await fetch_all(self._connection, _GIVE, _columns(missing))
                known |= {(r["line"], r["page"], r["opening_minor"], r["occurrence"]): r["number"] for r in given}
                missing = [name for name in missing if name not in known]
        return [known[name] for name in named]


def _columns(named: Sequence[_Named]) -> dict[str, Any]:
    names = ("lines", "pages", "openings", "occurrences")
    return {name: list(column) for name, column in zip(names, zip(*named, strict=True), strict=True)}
