"""Attempts at ``/auth/token``, and which expiries of API keys were announced.

Revision ID: 0002
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SCRIPT = """
CREATE TABLE control.token_attempt (
    key BYTEA NOT NULL,
    full_at TIMESTAMP WITH TIME ZONE NOT NULL,
    failures INTEGER NOT NULL,
    faded_at TIMESTAMP WITH TIME ZONE NOT NULL,
    touched_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (key),
    CONSTRAINT token_attempt_key_length CHECK (octet_length(key) = 32),
    CONSTRAINT token_attempt_failures_counted CHECK (failures >= 0)
);
CREATE INDEX token_attempt_by_age ON control.token_attempt (touched_at);
ALTER TABLE control.api_key ADD COLUMN expiry_announced_at TIMESTAMP WITH TIME ZONE;
CREATE INDEX api_key_by_expiry ON control.api_key (expires_at)
    WHERE expiry_announced_at IS NULL AND revoked_at IS NULL AND expires_at IS NOT NULL;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), SCRIPT)
