"""Links of returns that were taken back, so that the payment pays what was expected of it first.

Revision ID: 0038
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE INDEX reversal_link_early ON reversal_link (created_at) WHERE match_id IS NULL;
CREATE TABLE reversal_link_state (
    reversal_id UUID NOT NULL,
    incoming_id UUID NOT NULL,
    expected_id UUID,
    match_id UUID,
    change_id UUID NOT NULL,
    until_change_id UUID NOT NULL,
    amount_minor BIGINT NOT NULL,
    settled_minor BIGINT DEFAULT 0 NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ordinal SMALLINT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (reversal_id, until_change_id, ordinal)
);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
