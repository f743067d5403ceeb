"""What statements are like because of Citus, where it does the parts of some one after the other (decision 12)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged, matches_logged
from payrec.storage.match_proposals import _SUPERSEDE
from payrec.storage.temporary import make_temporary

pytestmark = pytest.mark.anyio

SCRIPT = """
    SET LOCAL work_mem = '1MB';
    CREATE TEMPORARY TABLE one (id uuid) ON COMMIT DROP;
    CREATE TEMPORARY TABLE two ON COMMIT DROP AS SELECT id FROM one
"""


class Recorded:
    """A connection that keeps what it is asked."""

    def __init__(self, *, is_distributed: bool) -> None:
        self.is_distributed = is_distributed
        self.dropped_at_commit: list[str] = []
        self.asked: list[str] = []

    async def execute(self, query: bytes, **_options: Any) -> None:
        """Keep a statement."""
        self.asked.append(" ".join(query.decode().split()))


@pytest.mark.parametrize(
    "statement",
    [
        allocations_logged("UPDATE allocation a SET version = 2", of="a.side = 1"),
        matches_logged("UPDATE match m SET version = 2", of="m.id = %(id)s"),
    ],
)
def test_what_was_there_is_read_before_it_is_changed(statement: str) -> None:
    # Read once, it would be put behind the change by Citus unless it is materialized.
    assert statement.index("was AS MATERIALIZED") < statement.index("changed AS") < statement.index("kept AS")


def test_what_is_superseded_is_kept_before() -> None:
    assert _SUPERSEDE.index("{kept}") < _SUPERSEDE.index("UPDATE match")


async def test_tables_of_a_transaction_are_temporary() -> None:
    connection = Recorded(is_distributed=False)
    await make_temporary(cast("Connection", connection), SCRIPT)
    assert connection.asked == [" ".join(SCRIPT.split())]
    assert not connection.dropped_at_commit


async def test_on_citus_they_are_beside_the_environments_and_dropped() -> None:
    connection = Recorded(is_distributed=True)
    await make_temporary(cast("Connection", connection), SCRIPT)
    assert connection.asked == [
        "SET LOCAL work_mem = '1MB'",
        "CREATE UNLOGGED TABLE one (id uuid)",
        "CREATE UNLOGGED TABLE two AS SELECT id FROM one",
    ]
    assert connection.dropped_at_commit == ["one", "two"]
