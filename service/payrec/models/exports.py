"""Exports on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from payrec.models.common import Public, Request

ExportResource = Literal[
    "expected-transactions", "incoming-transactions", "matches", "postings", "imports", "fx-rates", "audit-log", "jobs"
]
"""The lists that can be exported, called as their paths are."""

ExportedFile = ExportResource | Literal["match-proposals"]
"""What a file may be of: a list, or all that a dry run would propose."""

ExportFormat = Literal["csv", "parquet"]


class ExportCreate(Request):
    """The ``params`` of a job of kind ``export``: which list, narrowed by its own filters, as which file."""

    resource: ExportResource
    format: ExportFormat = "csv"
    filter: dict[str, Any] | None = Field(
        default=None, description="Query parameters of the list, `sort` included; neither `limit` nor `cursor`."
    )


class ExportResult(Public):
    """The ``result`` of a job of kind ``export``."""

    url: str
    """Where the file is until it expires; a standard endpoint."""
    expires_at: datetime
    rows: int
    bytes: int
    sha256: str


class ExportFilePublic(Public):
    """What is known of the file of an export."""

    id: UUID
    resource: ExportedFile
    format: ExportFormat
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """Name under which it is saved."""
        return f"{self.resource}-{self.id}.{self.format}"
