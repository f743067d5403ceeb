"""The feed of events, and which changes still wait for their place in it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, TenantTable, column


class Event(TenantTable, table=True):
    """One event of one resource, at its place in the feed."""

    __tablename__ = "event"
    __table_args__ = (
        Index("event_id_unique", "id", unique=True),
        Index("event_by_resource", "resource_id", "position"),
        Index("event_by_type", "type", "position"),
        Index("event_by_instant", "occurred_at"),
    )

    position: int = Field(sa_column=column(int, primary_key=True))
    """Given after the commit of what happened, without a gap: who has read up to one has missed none before it."""
    id: UUID = Field(sa_column=column(UUID))
    resource_id: UUID = Field(sa_column=column(UUID))
    occurred_at: datetime = Field(sa_column=column(datetime))
    """The instant of the change that it tells of."""
    type: str = Field(sa_column=column(str))
    data: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))


class EventFeed(TenantTable, table=True):
    """How far the feed is: one row, once there was an event. It stays when old events go."""

    __tablename__ = "event_feed"
    __table_args__ = (CheckConstraint("id = 1", name="event_feed_is_one"),)

    id: int = Field(sa_column=column(int, primary_key=True, small=True))
    position: int = Field(sa_column=column(int))


class UnsealedChange(ControlTable, table=True):
    """A committed change whose events may still be in the outbox of its environment.

    It is written with the change and never updated: writers of one environment do not wait for each other here.
    """

    __tablename__ = "unsealed_change"
    __table_args__ = ({"schema": CONTROL_SCHEMA},)

    change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    environment_id: UUID = Field(sa_column=column(UUID))
