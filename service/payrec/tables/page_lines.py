"""Lines of statements that come page by page."""

from __future__ import annotations

from sqlalchemy import Index
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class PageLine(TenantTable, table=True):
    """A line that a page of a statement shows, and which one it is of the equal ones on all pages."""

    __tablename__ = "page_line"
    __table_args__ = (Index("page_line_number_unique", "line", "number", unique=True),)

    line: bytes = Field(sa_column=column(bytes, primary_key=True))
    """SHA-256, cut to 128 bits, of the statement and what makes lines equal."""
    page: int = Field(sa_column=column(int, primary_key=True))
    """The number of the page; 0 where it has none."""
    opening_minor: int = Field(sa_column=column(int, primary_key=True))
    """The balance that the page begins with; 0 where it has none."""
    occurrence: int = Field(sa_column=column(int, primary_key=True))
    """How many equal lines come before it on the page."""
    number: int = Field(sa_column=integer())
    """Which one it is of the equal lines of all pages: in whatever order pages come, each has a number of its own."""
