"""Backtests on the wire: the params of their jobs, and what they tell."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from payrec.models.common import Date, Public, Request
from payrec.models.matches import RunSettings


class BacktestCreate(Request):
    """The ``params`` of a job of kind ``backtest``: which days are decided once more, and by which settings."""

    from_: Date = Field(alias="from")
    """The first day, in the tenant's time zone."""
    to: Date
    """The last one; it is over."""
    settings: RunSettings | None = None
    """Tried instead of the tenant's."""
    precision: Annotated[float, Field(gt=0, le=1)] = 0.999
    """For which the recall is told."""


class BacktestFigures(Public):
    """How many lines that arrived in these days were accepted without a person, and what became of them at last."""

    lines: int
    """Incoming transactions that arrived, without what is ignored, classified or a return and was never accepted."""
    matched: int
    """Of these, those that an accepted match has now."""
    auto_accepted: int
    right: int
    """Accepted for just what they are matched with now."""
    wrong: int
    undecided: int
    """Accepted, though no match has them now."""
    match_rate: float | None
    """``autoAccepted`` of ``lines``; null of none, and so are the others."""
    error_rate: float | None
    """``wrong`` of ``right`` and ``wrong``."""
    recall: float | None
    """``right`` of ``matched``."""


class BacktestThreshold(Public):
    """The least score from which on so many proposals were right as was asked for."""

    precision: float | None
    recall: float | None
    score: float | None
    """Null where no score is enough."""


class BacktestLine(Public):
    """An incoming transaction, and the match that it has now."""

    incoming_transaction_id: UUID
    incoming_transaction_url: str
    match_id: UUID | None
    match_url: str | None


class BacktestLines(Public):
    """Lines that were decided otherwise; the first of them."""

    count: int
    lines: list[BacktestLine]


class BacktestResult(Public):
    """The ``result`` of a job of kind ``backtest``."""

    days: int
    proposed: int
    """Lines that were proposed or accepted for anything."""
    figures: BacktestFigures
    actual: BacktestFigures
    """What runs have really accepted without a person, also where somebody has taken it back since."""
    at_precision: BacktestThreshold
    gained: BacktestLines
    """Right, and accepted by a person in fact."""
    lost: BacktestLines
    """Accepted without a person in fact, and not any more; also where that was taken back since."""
    wrong: BacktestLines
    engine_version: str
    rules_version: int
    settings: dict[str, Any] | None
