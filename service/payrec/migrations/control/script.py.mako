"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}

Expand now, contract a release later; never change a type in place; downgrades are not written.
"""

from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    ${upgrades if upgrades else "pass"}
