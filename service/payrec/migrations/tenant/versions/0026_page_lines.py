"""Which number a line has that several pages of a statement may show, in however many files they come.

Lines that are stored belong to the page with which they came, as far as they are known by their content and the pages
of the statement have counted on without a gap; about others the next upload of a page says it.

Revision ID: 0026
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_TABLE = """
CREATE TABLE page_line (
    line BYTEA NOT NULL,
    page BIGINT NOT NULL,
    opening_minor BIGINT NOT NULL,
    occurrence BIGINT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (line, page, opening_minor, occurrence)
);
CREATE UNIQUE INDEX page_line_number_unique ON page_line (line, number);
"""
LINES = r"""
WITH paged AS (
    SELECT import_id, ordinal, coalesce(sequence_number, statement_id, '') AS name, opening_minor, page_number
    FROM statement WHERE page_number > 1 OR NOT is_last_page
), shown AS (
    SELECT substring(sha256(convert_to(s.name || chr(31), 'UTF8') || t.fingerprint) FOR 16) AS line,
        CASE WHEN s.name ~ '[^0]' THEN s.page_number END AS page, s.opening_minor,
        CASE WHEN length(t.identity) = 16 THEN 0
            ELSE ('x' || encode(substring(t.identity FROM 17), 'hex'))::bit(32)::integer END AS number
    FROM paged s JOIN incoming_transaction t ON t.import_id = s.import_id AND t.statement_index = s.ordinal
    WHERE t.external_id IS NULL AND substring(t.identity FOR 16) = t.fingerprint
        AND length(t.identity) IN (16, 20)
), counted AS (
    SELECT line, coalesce(page, 0) AS page, coalesce(opening_minor, 0) AS opening_minor, number,
        row_number() OVER (PARTITION BY line, page, opening_minor ORDER BY number) - 1 AS occurrence,
        count(*) OVER (PARTITION BY line) AS lines, max(number) OVER (PARTITION BY line) AS last
    FROM shown WHERE num_nonnulls(page, opening_minor) > 0
)
INSERT INTO page_line (line, page, opening_minor, occurrence, number)
SELECT line, page, opening_minor, occurrence, number FROM counted WHERE last = lines - 1;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _TABLE + LINES)
