"""From a file to pieces: every row is in one of them, and memory does not grow with the file."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from payrec.domain.pages import Page
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


LINE = ":61:2603100310C1,NTRFNONREF\r\n:86:R1\r\n"


def first_page(lines: int, closing: str) -> bytes:
    head = ":20:X\r\n:25:10020030/1234567\r\n:28C:7/1\r\n:60F:C260310EUR1,\r\n"
    return f"{head}{LINE * lines}:{closing}:C260310EUR{1 + lines},\r\n-\r\n".encode()


def paged(data: bytes, pages: dict[int, Page]) -> tuple[list[int], dict[int, Page]]:
    """Return how many rows of each piece stand on pages, and what turned out to be a page too late."""
    with Ingestion(
        io.BytesIO(data),
        name="x",
        options=ReadOptions(),
        import_id=uuid4(),
        ids=TimeOrderedIds(),
        monotonic=lambda: 0.0,
        pages=pages,
    ) as reading:
        found = [len(piece.paged) for piece in reading.pieces(STAMP)]
        return found, reading.belated_pages


def test_a_page_that_is_known_as_one_at_its_end_is_read_again_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "PIECE_ROWS", 1_000)
    # So many that a reader has not come to the end when the first rows are taken.
    page, whole = first_page(4_000, "62M"), first_page(4_000, "62F")
    found, belated = paged(page, {})
    assert found[0] == 0
    assert belated == {0: Page("7", 1, 100)}
    found, _ = paged(page, belated)
    assert sum(found) == 4_000
    assert paged(whole, {}) == ([0] * 4, {})


@pytest.mark.parametrize(("lines", "closing", "expected"), [(999, "62M", 999), (999, "62F", 0)])
def test_a_page_within_a_piece_is_one_at_once(lines: int, closing: str, expected: int) -> None:
    assert paged(first_page(lines, closing), {}) == ([expected], {})
