"""Tenants that belong to Tenant resources: their owner, the states of their keys, and what is left when they go.

Revision ID: 0006
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SCRIPT = """
ALTER TABLE control.tenant
    ADD COLUMN resource_uid TEXT,
    ADD COLUMN resource_namespace TEXT,
    ADD COLUMN resource_name TEXT,
    ADD COLUMN resource_fields TEXT[] DEFAULT '{}' NOT NULL,
    ADD COLUMN orphaned_at TIMESTAMP WITH TIME ZONE,
    ADD CONSTRAINT tenant_resource_whole CHECK (
        (resource_namespace IS NULL) = (resource_name IS NULL)
        AND (resource_uid IS NULL OR resource_name IS NOT NULL)),
    ADD CONSTRAINT tenant_orphan_without_owner CHECK (
        orphaned_at IS NULL OR (resource_uid IS NULL AND resource_name IS NOT NULL));
CREATE UNIQUE INDEX tenant_resource_uid_unique ON control.tenant (resource_uid) WHERE resource_uid IS NOT NULL;
CREATE UNIQUE INDEX tenant_resource_unique ON control.tenant (resource_namespace, resource_name)
    WHERE resource_name IS NOT NULL AND orphaned_at IS NULL;

ALTER TABLE control.app_user ADD COLUMN of_resource BOOLEAN DEFAULT false NOT NULL;

ALTER TABLE control.api_key
    ADD COLUMN resource_key TEXT,
    ADD COLUMN state TEXT DEFAULT 'active' NOT NULL,
    ADD CONSTRAINT api_key_state_known CHECK (state IN ('pending', 'active', 'retiring')),
    ADD CONSTRAINT api_key_retiring_ends CHECK (state <> 'retiring' OR expires_at IS NOT NULL);
CREATE INDEX api_key_by_resource_key ON control.api_key (tenant_id, resource_key)
    WHERE resource_key IS NOT NULL AND revoked_at IS NULL;

CREATE TABLE control.tombstone (
    schema_name TEXT NOT NULL,
    role_name TEXT NOT NULL,
    tenant_id UUID NOT NULL,
    dropped_name TEXT NOT NULL,
    dropped_at TIMESTAMP WITH TIME ZONE NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    error TEXT,
    PRIMARY KEY (schema_name)
);
CREATE INDEX tombstone_by_attempt ON control.tombstone (next_attempt_at);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), SCRIPT)
