"""Terms of payment, remittance advices, and the matches of which something was held back.

Revision ID: 0037
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE expected_transaction ADD COLUMN terms JSONB;
ALTER TABLE expected_open ADD COLUMN terms BIGINT[];
CREATE TABLE remittance_advice (
    id UUID NOT NULL,
    change_id UUID NOT NULL,
    total_minor BIGINT NOT NULL,
    payment_key BIGINT,
    name_key BIGINT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    line_count INTEGER NOT NULL,
    currency TEXT NOT NULL,
    payment_reference TEXT,
    counterparty_name TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX remittance_advice_by_total ON remittance_advice (total_minor, currency);
CREATE TABLE remittance_advice_line (
    advice_id UUID NOT NULL,
    amount_minor BIGINT NOT NULL,
    deduction_minor BIGINT DEFAULT 0 NOT NULL,
    reference_key BIGINT NOT NULL,
    ordinal INTEGER NOT NULL,
    reference TEXT NOT NULL,
    reason TEXT,
    PRIMARY KEY (advice_id, ordinal),
    CONSTRAINT remittance_advice_line_amounts CHECK (amount_minor > 0 AND deduction_minor >= 0)
);
DO $$
DECLARE
    part text;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid WHERE h.inhparent = 'match'::regclass
    LOOP
        EXECUTE format(
            'CREATE INDEX %I ON %I (id) WHERE adjustments @? ''$[*] ? (@.type == "deduction")''',
            replace(part, 'match_', 'match_by_deduction_'), part
        );
    END LOOP;
END $$;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
