"""From a file to pieces: every row is in one of them, and memory does not grow with the file."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from payrec.factory import TimeOrderedIds
from payrec.formats.base import ReadOptions
from payrec.services import ingestion
from payrec.services.ingestion import BLOCK_ROWS, PIECE_ROWS, Ingestion
from payrec.storage.pieces import TRANSACTION_COLUMNS, Stamp
from support.memory import peak_bytes

STAMP = Stamp(at=datetime(2026, 3, 1, tzinfo=UTC), change_id=uuid4(), import_id=uuid4())
ID = TRANSACTION_COLUMNS.index("id")

GROWTH_BYTES_MAX = 4 * 1024 * 1024
"""What three times as many rows may take more: the table that counts occurrences, twice while it grows."""


def make_csv(rows: int) -> bytes:
    lines = ["Booking date;Amount;Currency;Name;IBAN;Remittance"]
    lines += [
        f"2026-{n % 9 + 1:02}-{n % 28 + 1:02};{n % 9000 + 10}.{n % 100:02};EUR;Customer {n % 500} GmbH;"
        f"DE{n % 97:02}1001001{n:011};Invoice INV-{n:08}"
        for n in range(rows)
    ]
    return "\n".join(lines).encode()


def pieces(data: bytes) -> list[int]:
    """Return how many rows each piece has; every row has an id of its own."""
    found: list[int] = []
    seen: set[UUID] = set()
    with Ingestion(
        io.BytesIO(data),
        name="x",
        options=ReadOptions(),
        import_id=uuid4(),
        ids=TimeOrderedIds(),
        monotonic=lambda: 0.0,
    ) as reading:
        for piece in reading.pieces(STAMP):
            rows = [row.split("\t") for row in piece.transactions.decode().splitlines()]
            ids = {UUID(row[ID]) for row in rows}
            opened = {UUID(row.split("\t", 1)[0]) for row in piece.opened.decode().splitlines()}
            assert len(ids) == len(rows) == piece.rows
            assert opened == ids
            assert [row[0] for row in rows] == sorted(row[0] for row in rows)
            assert not ids & seen
            seen |= ids
            found.append(len(rows))
        assert reading.transactions == sum(found)
    return found


@pytest.mark.parametrize("rows", [1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, PIECE_ROWS, PIECE_ROWS + 1, 12_345])
def test_every_row_is_in_one_piece(rows: int) -> None:
    found = pieces(make_csv(rows))
    assert sum(found) == rows
    assert all(size == PIECE_ROWS for size in found[:-1])


@pytest.mark.parametrize(("block", "piece"), [(1, 1), (7, 20), (20, 7), (3, 3)])
def test_no_size_of_blocks_loses_a_row(monkeypatch: pytest.MonkeyPatch, block: int, piece: int) -> None:
    monkeypatch.setattr(ingestion, "BLOCK_ROWS", block)
    monkeypatch.setattr(ingestion, "PIECE_ROWS", piece)
    for rows in range(1, 45):
        assert sum(pieces(make_csv(rows))) == rows


def test_memory_does_not_grow_with_the_file() -> None:
    small, large = make_csv(20_000), make_csv(60_000)

    def read(data: bytes) -> None:
        with Ingestion(
            io.BytesIO(data),
            name="x",
            options=ReadOptions(),
            import_id=uuid4(),
            ids=TimeOrderedIds(),
            # Measuring memory is slow, and no reason to refuse the file.
            monotonic=lambda: 0.0,
        ) as reading:
            for _ in reading.pieces(STAMP):
                pass

    read(small)
    before = peak_bytes(lambda: read(small))
    assert peak_bytes(lambda: read(large)) - before < GROWTH_BYTES_MAX
