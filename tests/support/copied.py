"""What a binary COPY holds, read value by value: slow, and easily seen to be right."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

_KINDS: Final = {
    **dict.fromkeys(("id", "run_id", "match_id", "transaction_id", "winner", "valid_from", "change_id"), "uuid"),
    **dict.fromkeys(("expected_id", "contra_expected_id", "incoming_id", "contra_incoming_id"), "uuid"),
    **dict.fromkeys(
        ("currency", "status", "kind", "confidence", "uniqueness", "created_by", "decided_by", "settled_currency"),
        "text",
    ),
    **dict.fromkeys(("alternatives", "adjustments", "proof"), "json"),
    **dict.fromkeys(("created_at", "updated_at", "decided_at"), "instant"),
    "type": "text",
    "levels": "smallints",
    "resource_ids": "uuids",
    "effective_on": "date",
}
"""What columns hold; the others are numbers."""


def table(data: bytes, columns: list[str]) -> list[dict[str, Any]]:
    """Return the rows of a binary COPY in these columns."""
    return [
        {name: None if raw is None else _value(raw, _KINDS.get(name)) for name, raw in zip(columns, row, strict=True)}
        for row in cells(data)
    ]


def cells(data: bytes) -> list[list[bytes | None]]:
    """Return the bytes of all values of all rows."""
    if not data:
        return []
    assert data.startswith(HEADER)
    assert data.endswith(TRAILER)
    rows, place = [], len(HEADER)
    while (count := _number(data[place : place + 2])) >= 0:
        place += 2
        row: list[bytes | None] = []
        for _ in range(count):
            length = _number(data[place : place + 4])
            place += 4
            row.append(None if length < 0 else data[place : place + length])
            place += max(length, 0)
        rows.append(row)
    assert place + len(TRAILER) == len(data)
    return rows


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _value(raw: bytes, kind: str | None) -> Any:
    found: Any = _number(raw)
    if kind == "uuid":
        found = UUID(bytes=raw)
    elif kind == "text":
        found = raw.decode()
    elif kind == "json":
        assert raw[0] == 1
        found = json.loads(raw[1:])
    elif kind == "instant":
        found = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=found)
    elif kind == "date":
        found = date(2000, 1, 1) + timedelta(days=found)
    elif kind in {"smallints", "uuids"}:
        dimensions, nulls, _type, size, first = struct.unpack(">5i", raw[:20])
        assert (dimensions, nulls, first) == (1, 0, 1)
        width = len(raw[20:]) // size
        items = [raw[20 + n * width : 20 + (n + 1) * width] for n in range(size)]
        assert all(_number(item[:4]) == width - 4 for item in items)
        found = [UUID(bytes=item[4:]) if kind == "uuids" else _number(item[4:]) for item in items]
    return found
