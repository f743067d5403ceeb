"""Connections to servers that tenants name: what cannot be made is told."""

from __future__ import annotations

import pytest

from payrec.connectors.base import SourceError
from payrec.connectors.egress import connect
from payrec.domain.addresses import Destinations

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("host", ["sftp..example.com", f"{'a' * 64}.example.com"])
async def test_a_name_that_nobody_can_look_up_is_not_found(host: str) -> None:
    with pytest.raises(SourceError) as refused:
        await connect(host, 22, Destinations(), is_encrypted=True)
    assert refused.value.code == "name_not_found"
