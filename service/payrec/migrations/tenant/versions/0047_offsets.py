"""A return is posted against its payment where no match has that, and what it has to give back is countered.

Revision ID: 0047
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE posting DROP CONSTRAINT IF EXISTS posting_kind_known;
ALTER TABLE posting ADD CONSTRAINT posting_kind_known CHECK (
    kind IN ('match', 'match_reversal', 'return', 'return_reversal', 'classification', 'classification_reversal')
);
ALTER TABLE posting DROP CONSTRAINT IF EXISTS posting_reverses_another;
ALTER TABLE posting ADD CONSTRAINT posting_reverses_another CHECK (
    CASE WHEN kind IN ('match', 'classification') THEN num_nonnulls(reverses_sequence, reverses_id) = 0
        WHEN kind = 'return' THEN num_nonnulls(reverses_sequence, reverses_id) <= 1
        ELSE num_nonnulls(reverses_sequence, reverses_id) = 1 END
);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
