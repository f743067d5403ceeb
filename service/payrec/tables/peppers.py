"""Control: which peppers API keys were made under, told from each other without knowing any."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, column


class KnownPepper(ControlTable, table=True):
    """A pepper that processes of this installation have had."""

    __tablename__ = "known_pepper"
    __table_args__ = ({"schema": CONTROL_SCHEMA},)

    fingerprint: bytes = Field(sa_column=column(bytes, primary_key=True))
    """A key that is made of it and serves nothing else."""
    first_seen_at: datetime = Field(sa_column=column(datetime))
