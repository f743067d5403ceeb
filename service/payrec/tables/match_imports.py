"""Decisions that were made before, elsewhere: where each of them came from, and what it teaches.

They have no foreign key to their import, which is stored by the same transaction: to check a hundred thousand of them
took as long as to store them.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, array, column


class ImportedMatch(TenantTable, table=True):
    """A match that a file has told of. Who decided it, and when, is in the match as the file has said it."""

    __tablename__ = "imported_match"
    __table_args__ = (
        CheckConstraint("octet_length(content_key) = 16", name="imported_match_content_key_length"),
        Index("imported_match_content_unique", "content_key", unique=True),
        Index("imported_match_to_learn", "import_id", postgresql_where=text("reviewed AND learned_change_id IS NULL")),
    )

    match_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    import_id: UUID = Field(sa_column=column(UUID))
    learned_change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that learned of it; null while nobody has looked."""
    imported_at: datetime = Field(sa_column=column(datetime))
    reviewed: bool = Field(sa_column=column(bool))
    """A person has decided it, or looked at it: it teaches."""
    content_key: bytes = Field(sa_column=column(bytes))
    """MD5 of what it joins, by which amounts: the same decision again is known by it."""
    imported_by: str = Field(sa_column=column(str))


class ImportedMatchLesson(TenantTable, table=True):
    """What matching would have proposed of a transaction that an imported match has decided, and whether it is that."""

    __tablename__ = "imported_match_lesson"
    __table_args__ = (
        ForeignKeyConstraint(["match_id"], ["imported_match.match_id"], name="imported_match_lesson_match"),
        Index("imported_match_lesson_by_match", "match_id"),
    )

    expected_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    incoming_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    match_id: UUID = Field(sa_column=column(UUID))
    change_id: UUID = Field(sa_column=column(UUID))
    rival_milli: int | None = Field(sa_column=column(int, nullable=True))
    """The score of the best that would have fitted as well, log-odds in thousandths."""
    agrees: bool = Field(sa_column=column(bool))
    """The proposal is the match, and not another one of its line or item."""
    levels: list[int] = Field(sa_column=array(int, small=True))
    """The evidence, as in ``match``."""
    uniqueness: str = Field(sa_column=column(str))
