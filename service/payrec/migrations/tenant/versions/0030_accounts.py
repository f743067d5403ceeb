"""Accounts, what the books say of them, and which change stored a statement.

Of what is stored already, an account is made for each identifier and currency that a line moves, or that a statement is
of. Its opening balance is that of the earliest statement that is here.

Revision ID: 0030
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE account (
    id UUID NOT NULL,
    change_id UUID,
    opening_minor BIGINT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    opening_on DATE,
    version INTEGER DEFAULT 1 NOT NULL,
    statement_due_after_hours INTEGER,
    opening_given BOOLEAN DEFAULT false NOT NULL,
    identifier TEXT NOT NULL,
    name TEXT,
    kind TEXT NOT NULL,
    currency TEXT NOT NULL,
    statement_every TEXT,
    PRIMARY KEY (id),
    CONSTRAINT account_kind_known CHECK (kind IN ('bank', 'psp', 'cash', 'clearing')),
    CONSTRAINT account_statement_every_known CHECK (statement_every IN ('day', 'week', 'month')),
    CONSTRAINT account_opening_whole CHECK ((opening_minor IS NULL) = (opening_on IS NULL))
);
CREATE UNIQUE INDEX account_unique ON account (identifier, currency);
CREATE TABLE account_state (
    account_id UUID NOT NULL,
    change_id UUID,
    opening_minor BIGINT,
    opening_on DATE,
    version INTEGER NOT NULL,
    PRIMARY KEY (account_id, version)
);
CREATE TABLE book_balance (
    account_id UUID NOT NULL,
    change_id UUID NOT NULL,
    balance_minor BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    balance_on DATE NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (account_id, balance_on, version)
);
ALTER TABLE statement ADD COLUMN change_id UUID;
CREATE INDEX statement_apart ON statement (account, currency) WHERE chained_on IS NULL;
WITH named AS (
    SELECT account, currency, bool_or(is_psp) AS is_psp FROM (
        SELECT DISTINCT account, coalesce(net_currency, currency) AS currency, net_minor IS NOT NULL AS is_psp
        FROM incoming_transaction WHERE account IS NOT NULL
        UNION ALL
        SELECT DISTINCT account, currency, kind = 'settlement' FROM statement
        WHERE account IS NOT NULL AND currency IS NOT NULL
    ) n GROUP BY 1, 2
)
INSERT INTO account (id, created_at, updated_at, identifier, kind, currency, opening_minor, opening_on)
SELECT
    -- A random UUID with the time in front and the version set to 7.
    encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING
        substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid,
    clock_timestamp(), clock_timestamp(), n.account, CASE WHEN n.is_psp THEN 'psp' ELSE 'bank' END, n.currency,
    s.opening_minor, s.opening_on
FROM named n LEFT JOIN LATERAL (
    SELECT s.opening_minor, coalesce(least(s.from_on, s.first_booking_on), s.opened_on, s.chained_on) AS opening_on
    FROM statement s
    WHERE s.account = n.account AND s.currency = n.currency AND s.opening_minor IS NOT NULL
        AND s.kind NOT IN ('interim', 'notification')
        AND coalesce(s.from_on, s.first_booking_on, s.opened_on, s.chained_on) IS NOT NULL
    ORDER BY coalesce(s.chained_on, s.to_on, s.last_booking_on, s.opened_on), EXISTS (
        SELECT FROM statement e
        WHERE e.account = s.account AND e.currency = s.currency AND e.chained_on = s.chained_on
            AND e.closing_minor = s.opening_minor AND (e.import_id, e.ordinal) <> (s.import_id, s.ordinal)
    ), s.page_number NULLS FIRST, s.import_id, s.ordinal LIMIT 1
) s ON true
ORDER BY n.account, n.currency;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
