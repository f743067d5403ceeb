"""Rows that are older than they are."""

from __future__ import annotations


def aged(table: str, by: str, column: str = "created_at") -> str:
    """Return an UPDATE, without a condition, that takes an interval from the instants of a column.

    It depends on no setting, as the difference by itself does: Citus changes no row by what does.
    """
    return f"UPDATE {table} SET {column} = ({column} AT TIME ZONE 'UTC' - interval '{by}') AT TIME ZONE 'UTC'"  # noqa: S608 - our own text
