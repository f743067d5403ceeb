"""Why transactions are open, apart from what is open.

The tables of what is open are made anew without it, because a column that is only dropped stays in their rows.

Revision ID: 0012
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE open_reason (
    transaction_id UUID NOT NULL,
    side SMALLINT NOT NULL,
    reason SMALLINT NOT NULL,
    PRIMARY KEY (transaction_id, side),
    CONSTRAINT open_reason_side_known CHECK (side IN (1, 2))
);
INSERT INTO open_reason (transaction_id, side, reason)
SELECT transaction_id, 1, reason FROM expected_open WHERE reason IS NOT NULL
UNION ALL SELECT transaction_id, 2, reason FROM incoming_open WHERE reason IS NOT NULL;
CREATE TEMPORARY TABLE expected_open_before ON COMMIT DROP AS TABLE expected_open;
DROP TABLE expected_open;
CREATE TABLE expected_open (
    transaction_id UUID NOT NULL,
    open_minor BIGINT NOT NULL,
    total_minor BIGINT NOT NULL,
    min_minor BIGINT,
    max_minor BIGINT,
    reference_key BIGINT,
    end_to_end_key BIGINT,
    name_key BIGINT,
    account_key BIGINT,
    own_account_key BIGINT,
    group_key BIGINT,
    tie_key BIGINT NOT NULL,
    due_day INTEGER,
    from_day INTEGER,
    to_day INTEGER,
    revision INTEGER DEFAULT 1 NOT NULL,
    direction SMALLINT NOT NULL,
    currency TEXT NOT NULL,
    PRIMARY KEY (transaction_id)
);
INSERT INTO expected_open (
    transaction_id, open_minor, total_minor, min_minor, max_minor, reference_key, end_to_end_key, name_key,
    account_key, own_account_key, group_key, tie_key, due_day, from_day, to_day, revision, direction, currency
)
SELECT
    transaction_id, open_minor, total_minor, min_minor, max_minor, reference_key, end_to_end_key, name_key,
    account_key, own_account_key, group_key, tie_key, due_day, from_day, to_day, revision, direction, currency
FROM expected_open_before ORDER BY transaction_id;
CREATE TEMPORARY TABLE incoming_open_before ON COMMIT DROP AS TABLE incoming_open;
DROP TABLE incoming_open;
CREATE TABLE incoming_open (
    transaction_id UUID NOT NULL,
    open_minor BIGINT NOT NULL,
    total_minor BIGINT NOT NULL,
    end_to_end_key BIGINT,
    name_key BIGINT,
    account_key BIGINT,
    own_account_key BIGINT,
    group_key BIGINT,
    tie_key BIGINT NOT NULL,
    booking_day INTEGER NOT NULL,
    value_day INTEGER,
    revision INTEGER DEFAULT 1 NOT NULL,
    direction SMALLINT NOT NULL,
    pending BOOLEAN DEFAULT false NOT NULL,
    reversal BOOLEAN DEFAULT false NOT NULL,
    duplicate BOOLEAN DEFAULT false NOT NULL,
    currency TEXT NOT NULL,
    reference_keys BIGINT[] NOT NULL,
    PRIMARY KEY (transaction_id)
);
INSERT INTO incoming_open (
    transaction_id, open_minor, total_minor, end_to_end_key, name_key, account_key, own_account_key, group_key,
    tie_key, booking_day, value_day, revision, direction, pending, reversal, duplicate, currency,
    reference_keys
)
SELECT
    transaction_id, open_minor, total_minor, end_to_end_key, name_key, account_key, own_account_key, group_key,
    tie_key, booking_day, value_day, revision, direction, pending, reversal, duplicate, currency,
    reference_keys
FROM incoming_open_before ORDER BY transaction_id;
CREATE INDEX incoming_open_reversal ON incoming_open (transaction_id) WHERE reversal
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
