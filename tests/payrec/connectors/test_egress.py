"""Connections to servers that tenants name: what cannot be made is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from payrec.connectors.base import Place, SourceError
from payrec.connectors.egress import connect
from payrec.connectors.registry import connector_of
from payrec.domain.addresses import Destinations
from support.forwarder import certificate
from support.object_server import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("host", ["sftp..example.com", f"{'a' * 64}.example.com"])
async def test_a_name_that_nobody_can_look_up_is_not_found(host: str) -> None:
    with pytest.raises(SourceError) as refused:
        await connect(host, 22, Destinations(), is_encrypted=True)
    assert refused.value.code == "name_not_found"


async def test_a_store_whose_certificate_nobody_vouches_for_is_told(tmp_path: Path) -> None:
    tls, _ = certificate(tmp_path)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        config = {"bucket": "statements", "endpoint": f"https://127.0.0.1:{port}"}
        secret = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}
        place = Place(config=config, secret=secret, destinations=Destinations.of("127.0.0.0/8"))
        async with connector_of("s3", place) as store:
            with pytest.raises(SourceError) as refused:
                await anext(aiter(store.list("*")))
    assert refused.value.code == "tls_failed"
