"""A rate that was corrected is known as it was before, too.

Revision ID: 0028
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE fx_rate_state (
    rate_id UUID NOT NULL,
    change_id UUID NOT NULL,
    mantissa BIGINT NOT NULL,
    version INTEGER NOT NULL,
    places SMALLINT NOT NULL,
    PRIMARY KEY (rate_id, version)
);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
