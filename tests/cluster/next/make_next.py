"""Make the installed payrec into its next release: a higher version, and one more migration of either tree."""

from __future__ import annotations

from pathlib import Path

import payrec
from payrec.storage.migrations import head

VERSION = "99.0.0"
REVISION = "next"
STATEMENTS = {
    # What an older image goes on reading and writing: a table of every request, and one that is written all the time.
    "control": "ALTER TABLE control.tenant ADD COLUMN of_next_release TEXT",
    "tenant": "ALTER TABLE expected_transaction ADD COLUMN of_next_release TEXT",
}
MIGRATION = '''"""What the next release adds."""

from alembic import op

revision = "{revision}"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.execute("{statement}")
'''

package = Path(payrec.__file__).parent
for tree, statement in STATEMENTS.items():
    text = MIGRATION.format(revision=REVISION, head=head(tree), statement=statement)
    (package / "migrations" / tree / "versions" / f"{REVISION}.py").write_text(text, encoding="utf-8")
source = package / "__init__.py"
before = source.read_text(encoding="utf-8")
after = before.replace(f'"{payrec.__version__}"', f'"{VERSION}"')
assert after != before, "the version is not where it was"
source.write_text(after, encoding="utf-8")
