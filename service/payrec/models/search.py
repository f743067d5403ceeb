"""What a search over everything finds."""

from __future__ import annotations

from datetime import date, datetime
from typing import Generic, Literal, TypeVar
from uuid import UUID

from payrec.models.common import Public, SearchText
from payrec.models.expected_transactions import ExpectedTransactionPublic
from payrec.models.forms import FormQuery
from payrec.models.imports import ImportResource, ImportStatus
from payrec.models.incoming_transactions import IncomingTransactionPublic
from payrec.models.matches import MatchKind, MatchStatus

T = TypeVar("T")

FoundKind = Literal["incoming", "expected", "matches", "imports"]
"""Kinds of what can be found, by the names of their pages."""


class SearchQuery(FormQuery):
    """What is looked for."""

    q: SearchText | None = None
    kind: FoundKind | None = None
    """All kinds, unless one is named."""
    before: UUID | None = None
    """Of one kind, only what was stored before what has this id."""


class MatchFound(Public):
    """A match in a list of results."""

    id: UUID
    created_at: datetime
    status: MatchStatus
    kind: MatchKind
    currency: str
    amount_minor: int
    effective_on: date | None


class ImportFound(Public):
    """An import in a list of results."""

    id: UUID
    created_at: datetime
    status: ImportStatus
    resource: ImportResource
    name: str
    records: int


class Found(Public, Generic[T]):
    """Results of one kind."""

    results: list[T]
    """What has the text as its whole reference first, then the newest first."""
    older_before: UUID | None = None
    """Where to go on: more may be found before it. None where there is no more."""
    unfinished: bool = False
    """The database took too long, so that there may be more."""


class SearchResults(Public):
    """Results of all kinds; None for one that was not asked for."""

    incoming: Found[IncomingTransactionPublic] | None = None
    expected: Found[ExpectedTransactionPublic] | None = None
    matches: Found[MatchFound] | None = None
    imports: Found[ImportFound] | None = None
