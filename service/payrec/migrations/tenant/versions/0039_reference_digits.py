"""What is open has the digits of its references, by which those are found that are nearly quoted.

Revision ID: 0039
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

# As payrec.domain.matching.digits makes them. What has no digits keeps its row as it is.
_SCRIPT = r"""
ALTER TABLE expected_open ADD COLUMN reference_digits BIGINT;
ALTER TABLE incoming_open ADD COLUMN quoted_digits BIGINT[];
UPDATE expected_open o SET reference_digits = ('1' || right(e.digits, 18))::bigint
FROM (
    SELECT id, regexp_replace(reference, '[^0-9]', '', 'g') AS digits FROM expected_transaction
    WHERE reference IS NOT NULL
) e
WHERE e.id = o.transaction_id AND length(e.digits) >= 5;
UPDATE incoming_open o SET quoted_digits = i.numbers
FROM (
    SELECT p.transaction_id, (SELECT array_agg(('1' || right(digits, 18))::bigint ORDER BY place) FROM (
        SELECT digits, min(place) AS place FROM (
            SELECT regexp_replace(t.structured_reference, '[^0-9]', '', 'g') AS digits, 0 AS place
            UNION ALL
            SELECT regexp_replace(w.word, '[^0-9]', '', 'g'), w.at * 1000
            FROM regexp_split_to_table(t.remittance, '\s+') WITH ORDINALITY AS w (word, at)
            UNION ALL
            SELECT regexp_replace(s.part, '[^0-9]', '', 'g'), w.at * 1000 + s.at
            FROM regexp_split_to_table(t.remittance, '\s+') WITH ORDINALITY AS w (word, at),
                regexp_split_to_table(w.word, '[^0-9A-Za-z._-]+') WITH ORDINALITY AS s (part, at)
        ) said WHERE length(digits) >= 5 GROUP BY digits ORDER BY place LIMIT 4
    ) numbers) AS numbers
    FROM incoming_open p JOIN incoming_transaction t ON t.id = p.transaction_id
    WHERE t.remittance ~ '[0-9]' OR t.structured_reference ~ '[0-9]'
) i
WHERE i.transaction_id = o.transaction_id AND i.numbers IS NOT NULL;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
