"""The two metadata trees: ``control`` (one schema an installation) and the tenant tree (one schema an environment).

The classes are the only definition of the tables: the provisioning script is generated from them, and the drift test
compares what Alembic builds with them. Reading and writing is SQL in ``payrec.storage`` (see
``service/decisions/0006-sql-over-psycopg.md``).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import BigInteger, Boolean, Column, Date, DateTime, Integer, LargeBinary, SmallInteger, Text, text
from sqlalchemy import Uuid as UuidType
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import registry
from sqlmodel import SQLModel

CONTROL_SCHEMA: Final = "control"
"""The schema of the registry of tenants, users and keys."""

_control = registry()
_tenant = registry()


class ControlTable(SQLModel, registry=_control):
    """A table of the control schema."""


class TenantTable(SQLModel, registry=_tenant):
    """A table that every tenant environment has in its own schema; never named with a schema."""


CONTROL_METADATA: Final = _control.metadata
TENANT_METADATA: Final = _tenant.metadata

_TYPES: Final[dict[type, Any]] = {
    UUID: UuidType,
    str: Text,
    int: BigInteger,
    bool: Boolean,
    date: Date,
    bytes: LargeBinary,
}


def column(
    kind: type,
    *,
    nullable: bool = False,
    primary_key: bool = False,
    default: str | None = None,
    small: bool = False,
    name: str | None = None,
) -> Column[Any]:
    """Return a column of the house's type for a Python type; ``default`` is an SQL expression.

    ``name`` is for the few columns whose name Python or SQLAlchemy keeps for itself.
    """
    column_type: Any = _TYPES.get(kind)
    if kind is datetime:
        column_type = DateTime(timezone=True)
    elif kind is dict:
        column_type = JSONB
    elif kind is int and small:
        column_type = SmallInteger
    return Column(
        name,
        column_type,
        nullable=nullable,
        primary_key=primary_key,
        autoincrement=False,
        server_default=text(default) if default is not None else None,
    )


def integer(*, nullable: bool = False, default: str | None = None) -> Column[Any]:
    """Return a 32-bit integer column: counts, versions, days since 1970-01-01."""
    return Column(Integer, nullable=nullable, server_default=text(default) if default is not None else None)


def array(kind: type, *, nullable: bool = False, default: str | None = None, small: bool = False) -> Column[Any]:
    """Return an array column of the house's type for a Python type."""
    item = SmallInteger if kind is int and small else _TYPES[kind]
    return Column(ARRAY(item), nullable=nullable, server_default=text(default) if default is not None else None)
