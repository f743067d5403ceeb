"""Own accounts of expected transactions are called as those of lines are, however they were typed.

Revision ID: 0044
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

# As payrec.domain.references.account_identifier makes them. What matching compares has neither blanks nor small
# letters, so no proposal is stale by this.
_SCRIPT = r"""
UPDATE expected_transaction e SET account = found.name
FROM (
    SELECT id, CASE
        WHEN compact !~ '^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$' THEN clean
        WHEN (
            SELECT string_agg(CASE WHEN c ~ '[A-Z]' THEN (ascii(c) - 55)::text ELSE c END, '' ORDER BY n)::numeric % 97
            FROM regexp_split_to_table(substr(compact, 5) || left(compact, 4), '') WITH ORDINALITY AS s (c, n)
        ) = 1 THEN compact
        ELSE clean END AS name
    FROM (
        SELECT id, upper(regexp_replace(account, '\s', '', 'g')) AS compact,
            btrim(regexp_replace(account, '\s+', ' ', 'g')) AS clean
        FROM expected_transaction WHERE account ~ '\s|[a-z]'
    ) typed
) found
WHERE found.id = e.id AND found.name <> e.account AND found.name <> '';
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
