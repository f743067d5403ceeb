"""Names on statements, and which counterparty they were found to mean."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class Alias(TenantTable, table=True):
    """One name on statements. A forgotten one stays, so that it is not learned again."""

    __tablename__ = "alias"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'contradicted', 'unlearned', 'forgotten')", name="alias_status_known"),
        Index("alias_name_unique", "statement_key", unique=True),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    statement_key: int = Field(sa_column=column(int))
    counterparty_key: int = Field(sa_column=column(int))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    version: int = Field(sa_column=integer(default="1"))
    confirmations: int = Field(sa_column=integer(default="1"))
    """Lessons that stand and say so, those before they were kept included."""
    status: str = Field(sa_column=column(str))
    """``contradicted`` when others were meant as well, or as many matches that say so were rejected as accepted, and
    ``unlearned`` when every lesson was taken back: it tells nobody any more, until lessons decide otherwise."""
    statement_name: str = Field(sa_column=column(str))
    counterparty_name: str = Field(sa_column=column(str))
    earlier: int = Field(sa_column=integer(default="0"))
    """Confirmations from before lessons were kept."""
    disagreements: int = Field(sa_column=integer(default="0"))
    """Lessons that stand and mean another counterparty."""
    rejections: int = Field(sa_column=integer(default="0"))
    """Rejected matches of this name and counterparty."""
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made it what it is."""
    forgotten_change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))


class AliasLesson(TenantTable, table=True):
    """What one match has said of a name. One that is taken back stays, so that what was known when can be told."""

    __tablename__ = "alias_lesson"
    __table_args__ = (Index("alias_lesson_by_alias", "alias_id", "match_id"),)

    match_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    alias_id: UUID = Field(sa_column=column(UUID))
    counterparty_key: int = Field(sa_column=column(int))
    taught_at: datetime = Field(sa_column=column(datetime))
    """When the match was decided."""
    change_id: UUID = Field(sa_column=column(UUID))
    """The change that learned it."""
    taken_back_change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    agrees: bool = Field(sa_column=column(bool))
    """The match was accepted, not rejected."""
    taught_by: str = Field(sa_column=column(str))
    """Who decided."""
    counterparty_name: str = Field(sa_column=column(str))


class LearningMark(TenantTable, table=True):
    """The one row that says up to when decisions were looked at for what they say of names."""

    __tablename__ = "learning_mark"
    __table_args__ = (CheckConstraint("id", name="learning_mark_single"),)

    id: bool = Field(sa_column=column(bool, primary_key=True, default="true"))
    decided_through: datetime = Field(sa_column=column(datetime))
