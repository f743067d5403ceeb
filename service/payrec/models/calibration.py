"""What decisions have taught, on the wire."""

from __future__ import annotations

from datetime import datetime

from payrec.models.common import Public


class CorrectionPublic(Public):
    """What is added to the weight of a level of evidence, in log-odds."""

    feature: str
    level: str
    weight: float
    """By hand."""
    correction: float
    decisions: int
    """Decided proposals that had this evidence."""
    right: int
    """How many of them were accepted."""
    explanation: str


class CalibrationPublic(Public):
    """What the decisions of this tenant environment have taught; version 0 when nothing was learned yet."""

    version: int
    created_at: datetime | None
    forgotten_until: datetime | None
    """Decisions up to here have no part in it."""
    decisions: int
    reviewed: int
    """Reviewed decisions at or above the threshold, or all of those that count when there is no threshold."""
    wrong: int
    precision_bound: float
    """The one-sided 95 % lower bound of the share of these that was right (Wilson)."""
    precision_required: float
    threshold: float | None
    """The certified score, from which on a proposal with text evidence needs no person; null when there is none."""
    corrections: list[CorrectionPublic]
    explanation: str
