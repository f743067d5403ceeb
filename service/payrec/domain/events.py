"""Events: which there are, and what a receiver is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

_VERBS: Final = {
    "expected_transaction": "created updated voided overdue partially_matched matched reopened",
    "incoming_transaction": ("created updated ignored classified restored reversed partially_matched matched reopened"),
    "import": "completed failed statement_gap",
    "match": "proposed pending_approval approved accepted rejected reversed superseded",
    "job": "succeeded failed cancelled",
    "account": "statement_missing",
    "period": "locked reopened",
    "data_source": "failed recovered",
    "api_key": "created revoked expiring",
    "webhook": "disabled",
    "tenant": "created suspended settings_updated",
    "audit": "sealed",
}

EVENT_TYPES: Final = frozenset(f"{noun}.{verb}" for noun, verbs in _VERBS.items() for verb in verbs.split())
"""Every type of event that there is or will be: who subscribes today may name tomorrow's."""

TEST_EVENT_TYPE: Final = "webhook.test"
"""Type of the message that tries an endpoint; it is in no feed."""

ALL_EVENTS: Final = "*"
"""Stands for every type in what an endpoint wants."""


def told(event_type: str, resource_id: UUID, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an event tells: which resource it is about, and what the change added.

    Thin on purpose: the resource itself is read where it is kept, in its state of then, by those who may.
    """
    return {"resourceType": event_type.partition(".")[0], "resourceId": str(resource_id), **data}
