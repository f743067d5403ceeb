"""Exchange rates.

Revision ID: 0004
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE fx_rate (
    id UUID NOT NULL,
    change_id UUID NOT NULL,
    mantissa BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    rated_on DATE NOT NULL,
    version INTEGER DEFAULT 1 NOT NULL,
    places SMALLINT NOT NULL,
    base TEXT NOT NULL,
    quote TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT fx_rate_joins_two CHECK (base <> quote),
    CONSTRAINT fx_rate_positive CHECK (mantissa > 0 AND places >= 0)
);
CREATE UNIQUE INDEX fx_rate_unique ON fx_rate (base, quote, rated_on);
CREATE INDEX fx_rate_by_day ON fx_rate (rated_on, id)
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
