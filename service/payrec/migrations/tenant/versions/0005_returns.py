"""Returns of payments.

Revision ID: 0005
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE reversal_link (
    reversal_id UUID NOT NULL,
    incoming_id UUID NOT NULL,
    expected_id UUID,
    match_id UUID,
    change_id UUID NOT NULL,
    amount_minor BIGINT NOT NULL,
    settled_minor BIGINT DEFAULT 0 NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ordinal SMALLINT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (reversal_id, ordinal),
    CONSTRAINT reversal_link_amounts_positive CHECK (amount_minor > 0 AND settled_minor >= 0),
    CONSTRAINT reversal_link_joins_two CHECK (reversal_id <> incoming_id),
    CONSTRAINT reversal_link_item_has_match CHECK (expected_id IS NULL OR match_id IS NOT NULL)
);
CREATE INDEX reversal_link_by_incoming ON reversal_link (incoming_id);
CREATE INDEX incoming_open_reversal ON incoming_open (transaction_id) WHERE reversal;
CREATE INDEX incoming_transaction_by_end_to_end ON incoming_transaction (end_to_end_id)
    WHERE end_to_end_id IS NOT NULL AND end_to_end_id <> 'NOTPROVIDED';
ALTER TABLE allocation DROP CONSTRAINT allocation_status_known;
ALTER TABLE allocation ADD CONSTRAINT allocation_status_known CHECK (status IN ('open', 'unmatched', 'pending',
    'partially_matched', 'matched', 'void', 'ignored', 'classified', 'reversed', 'linked'))
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
