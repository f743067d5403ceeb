"""What matches teach is kept with the match and the change; forgetting is kept as well.

Revision ID: 0024
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE alias
    ADD COLUMN earlier INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN disagreements INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN rejections INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN change_id UUID,
    ADD COLUMN forgotten_change_id UUID,
    DROP CONSTRAINT alias_status_known,
    ADD CONSTRAINT alias_status_known CHECK (status IN ('active', 'contradicted', 'unlearned', 'forgotten'));
-- Which matches taught what there is already, nobody has kept.
UPDATE alias SET earlier = confirmations;
CREATE TABLE alias_lesson (
    match_id UUID NOT NULL,
    alias_id UUID NOT NULL,
    counterparty_key BIGINT NOT NULL,
    taught_at TIMESTAMP WITH TIME ZONE NOT NULL,
    change_id UUID NOT NULL,
    taken_back_change_id UUID,
    agrees BOOLEAN NOT NULL,
    taught_by TEXT NOT NULL,
    counterparty_name TEXT NOT NULL,
    PRIMARY KEY (match_id)
);
CREATE INDEX alias_lesson_by_alias ON alias_lesson (alias_id, match_id);
CREATE TABLE learning_mark (
    id BOOLEAN DEFAULT true NOT NULL,
    decided_through TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT learning_mark_single CHECK (id)
);
CREATE TABLE rejection_forgotten (
    match_id UUID NOT NULL,
    change_id UUID NOT NULL,
    PRIMARY KEY (match_id)
);
ALTER TABLE calibration
    ADD COLUMN counts JSONB DEFAULT '{}' NOT NULL,
    ADD COLUMN change_id UUID;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
