"""Names on statements and whom they mean, on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from payrec.models.common import ListQuery, Public

AliasStatus = Literal["active", "contradicted"]


class AliasPublic(Public):
    """A name on statements, learned of accepted matches."""

    id: UUID
    created_at: datetime
    updated_at: datetime
    version: int
    statement_name: str
    counterparty_name: str
    confirmations: int
    status: AliasStatus


class AliasQuery(ListQuery):
    """Filters of the aliases."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: AliasStatus | None = None
