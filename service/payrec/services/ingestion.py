"""From a file to rows that can be loaded: read, count, and render in pieces. Blocking; runs in a thread."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO, Final
from uuid import UUID

from payrec.domain.caller import IdSource
from payrec.domain.incoming_transactions import identity_of, key_values, stored_values
from payrec.domain.statements import Entry, Problem, StatementEnd
from payrec.formats.base import ReadOptions
from payrec.formats.registry import FileParse, parse
from payrec.storage.staging import render, render_problem

PIECE_ROWS: Final = 5_000
"""Rows of a piece: enough for set statements to pay, few enough to stay in memory."""

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of rendered problems that stay in memory; more goes to a file of the same life."""


class Ingestion:
    """One reading of a file. ``pieces`` is iterated once; the rest is complete when the iteration is over."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        name: str,
        options: ReadOptions,
        import_id: UUID,
        ids: IdSource,
        monotonic: Callable[[], float],
    ) -> None:
        self._parse: FileParse = parse(stream, name=name, options=options, monotonic=monotonic)
        self._import_id = import_id
        self._ids = ids
        self.file = self._parse.file
        self.problems: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by __exit__
            max_size=SPOOL_MEMORY_BYTES
        )
        """Every problem, as COPY text."""
        self._problem_count = 0
        self.statements: list[dict[str, Any]] = []
        self.transactions = 0

    def __enter__(self) -> Ingestion:
        return self

    def __exit__(self, *_: object) -> None:
        self.problems.close()

    def pieces(self) -> Iterator[bytes]:
        """Yield the rows as COPY text, PIECE_ROWS at a time.

        Raises
        ------
        UnreadableFileError, PayloadTooLargeError, ValidationFailedError
            The file or its profile; nothing of it is to be kept.
        """
        lines: list[str] = []
        next_id = self._ids.block(PIECE_ROWS)
        for item in self._parse:
            if isinstance(item, Entry):
                identity = identity_of(item)
                stored = stored_values(item, transaction_id=f"{next_id + len(lines):032x}", identity=identity)
                lines.append(render(stored + key_values(item, identity=identity)))
                if len(lines) == PIECE_ROWS:
                    self.transactions += len(lines)
                    yield "".join(lines).encode()
                    lines.clear()
                    next_id = self._ids.block(PIECE_ROWS)
            elif isinstance(item, Problem):
                self.tell(item)
            elif isinstance(item, StatementEnd):
                self.statements.append(_statement_row(item, self._import_id))
        if lines:
            self.transactions += len(lines)
            yield "".join(lines).encode()

    def tell(self, problem: Problem) -> None:
        """Add a problem to those of the file; also after it was read."""
        line = render_problem(problem, import_id=self._import_id, ordinal=self._problem_count)
        self.problems.write(line.encode())
        self._problem_count += 1


def _statement_row(end: StatementEnd, import_id: UUID) -> dict[str, Any]:
    statement = end.statement
    opening, closing = statement.balance("opening"), statement.balance("closing")
    return {
        "import_id": import_id,
        "ordinal": statement.index,
        "opening_minor": opening.signed_minor if opening else None,
        "closing_minor": closing.signed_minor if closing else None,
        "balance_difference_minor": statement.balance_difference_minor,
        "credit_minor": sum(t.credit_minor for t in (statement.booked, statement.pending, statement.info)),
        "debit_minor": sum(t.debit_minor for t in (statement.booked, statement.pending, statement.info)),
        "first_booking_on": statement.first_booking_on,
        "last_booking_on": statement.last_booking_on,
        "entry_count": statement.entry_count,
        "transaction_count": statement.transaction_count,
        "kind": statement.kind,
        "account": statement.account,
        "currency": statement.currency,
        "statement_id": statement.statement_id,
        "sequence_number": statement.sequence_number,
        "balance_check": statement.balance_check,
        "balances": [
            {
                "type": b.type,
                "amountMinor": b.amount_minor,
                "currency": b.currency,
                "direction": b.direction,
                "date": b.on.isoformat() if b.on else None,
            }
            for b in statement.balances
        ],
    }
