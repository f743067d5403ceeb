"""Lists that were written into files.

Revision ID: 0011
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE export (
    id UUID NOT NULL,
    job_id UUID NOT NULL,
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    resource TEXT NOT NULL,
    format TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT export_job FOREIGN KEY(job_id) REFERENCES job (id),
    CONSTRAINT export_format_known CHECK (format IN ('csv', 'parquet')),
    CONSTRAINT export_counted CHECK (bytes >= 0 AND rows >= 0)
);
CREATE INDEX export_by_expiry ON export (expires_at);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
