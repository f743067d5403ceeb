"""An installation on a server of its own, with exactly the roles that the documentation names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from support.installations import Installation, installation


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Return an installation that ``payrec migrate`` has made."""
    with warnings.catch_warnings():
        # The embedded server's package warns about XDG_RUNTIME_DIR on machines without a login session.
        warnings.simplefilter("ignore")
        with installation() as made:
            made.shell("payrec migrate", cwd=tmp_path_factory.mktemp("migrate"))
            yield made
