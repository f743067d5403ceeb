"""Postings for the books, and how far these have taken them over.

What was decided before is not posted: the first posting is of the first decision that has its place in the feed of
events after this.

Revision ID: 0033
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE posting_codes (
    version INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    codes JSONB NOT NULL,
    PRIMARY KEY (version)
);
CREATE TABLE posting (
    sequence BIGINT NOT NULL,
    source_id UUID NOT NULL,
    change_id UUID,
    reverses_sequence BIGINT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    effective_on DATE NOT NULL,
    line_count INTEGER NOT NULL,
    codes_version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    lines JSONB NOT NULL,
    reverses_id UUID,
    PRIMARY KEY (sequence),
    CONSTRAINT posting_kind_known CHECK (
        kind IN ('match', 'match_reversal', 'return', 'classification', 'classification_reversal')
    ),
    CONSTRAINT posting_reverses_earlier CHECK (reverses_sequence < sequence),
    CONSTRAINT posting_reverses_another CHECK (
        num_nonnulls(reverses_sequence, reverses_id) = CASE WHEN kind IN ('match', 'classification') THEN 0 ELSE 1 END
    ),
    CONSTRAINT posting_codes_known FOREIGN KEY (codes_version) REFERENCES posting_codes (version)
);
CREATE INDEX posting_by_reversed ON posting (reverses_sequence) WHERE reverses_sequence IS NOT NULL;
CREATE INDEX posting_by_reversed_match ON posting (reverses_id) WHERE reverses_id IS NOT NULL;
CREATE UNIQUE INDEX posting_once ON posting (source_id, kind, change_id, reverses_sequence, reverses_id)
    NULLS NOT DISTINCT;
CREATE TABLE posting_feed (
    id SMALLINT NOT NULL,
    sequence BIGINT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT posting_feed_is_one CHECK (id = 1)
);
CREATE TABLE posting_acknowledgement (
    id UUID NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    from_sequence BIGINT NOT NULL,
    through_sequence BIGINT NOT NULL,
    external_batch_id TEXT NOT NULL,
    acknowledged_by TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT posting_acknowledgement_has_postings CHECK (through_sequence >= from_sequence)
);
CREATE UNIQUE INDEX posting_acknowledgement_batch_unique ON posting_acknowledgement (external_batch_id);
CREATE UNIQUE INDEX posting_acknowledgement_through_unique ON posting_acknowledgement (through_sequence);
INSERT INTO posting_feed (id, sequence, position) SELECT 1, 0, position FROM event_feed;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
