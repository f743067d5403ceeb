"""Open items are looked up by their keys, and their counterparties' names are kept as matching compares them.

Revision ID: 0020
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE INDEX expected_open_by_reference ON expected_open (reference_key) WHERE reference_key IS NOT NULL;
CREATE INDEX expected_open_by_end_to_end ON expected_open (end_to_end_key) WHERE end_to_end_key IS NOT NULL;
CREATE INDEX expected_open_by_group ON expected_open (group_key) WHERE group_key IS NOT NULL;
CREATE INDEX expected_open_by_account ON expected_open (account_key) WHERE account_key IS NOT NULL;
CREATE INDEX expected_open_by_name ON expected_open (name_key) WHERE name_key IS NOT NULL;
CREATE INDEX expected_open_by_own_account ON expected_open (own_account_key) WHERE own_account_key IS NOT NULL;
CREATE INDEX expected_open_by_amount ON expected_open (open_minor);
CREATE TABLE counterparty_name (
    name_key BIGINT NOT NULL,
    text TEXT NOT NULL,
    normal TEXT NOT NULL,
    PRIMARY KEY (name_key)
)
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
