"""The audit log is sealed: a chain of hashes over salted commitments.

Revision ID: 0019
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE audit_seal (
    sequence BIGINT NOT NULL,
    id UUID NOT NULL,
    sealed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    count BIGINT NOT NULL,
    previous_root BYTEA NOT NULL,
    root BYTEA NOT NULL,
    PRIMARY KEY (sequence),
    CONSTRAINT audit_seal_root_lengths CHECK (octet_length(root) = 32 AND octet_length(previous_root) = 32)
);
CREATE TABLE audit_commitment (
    change_id UUID NOT NULL,
    ordinal BIGINT NOT NULL,
    seal BIGINT NOT NULL,
    salt BYTEA,
    commitment BYTEA NOT NULL,
    PRIMARY KEY (change_id, ordinal),
    CONSTRAINT audit_commitment_lengths CHECK (octet_length(commitment) = 32 AND octet_length(salt) = 16)
);
CREATE INDEX audit_commitment_by_seal ON audit_commitment (seal);
CREATE TABLE audit_unsealed (
    change_id UUID NOT NULL,
    PRIMARY KEY (change_id)
);
-- What was recorded before there were seals gets into the first ones.
INSERT INTO audit_unsealed (change_id) SELECT DISTINCT change_id FROM audit_record
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
