"""Connections to addresses that tenants name: looked at when the socket is made, whatever a name said before."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from payrec.connectors.base import ConnectionBrokenError, SourceError
from payrec.constants.sources import SOURCE_CONNECT_SECONDS
from payrec.domain.addresses import Destinations, UrlRefusedError, connected_address, literal_address

AddressInfo = tuple[Any, Any, int, str, Any]


class AddressRefusedError(OSError):
    """A connection to an address that nothing is read from."""


def checked_socket(info: AddressInfo, destinations: Destinations, *, is_encrypted: bool) -> socket.socket:
    """Make the socket of a connection, if its address may be connected to.

    Raises
    ------
    AddressRefusedError
    """
    family, kind, protocol, _, sockaddr = info
    address = connected_address(family, sockaddr)
    if address is None or not destinations.admits(address, is_encrypted=is_encrypted):
        raise AddressRefusedError("nothing is read from this address")
    return socket.socket(family, kind, protocol)


async def connect(host: str, port: int, destinations: Destinations, *, is_encrypted: bool) -> socket.socket:
    """Return a connected socket that does not block.

    Raises
    ------
    SourceError
        The name is not found, all its addresses are refused, or none answers.
    """
    loop = asyncio.get_running_loop()
    try:
        literal_address(host)
    except UrlRefusedError as error:
        raise SourceError(error.code, error.detail) from None
    try:
        async with asyncio.timeout(SOURCE_CONNECT_SECONDS):
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return await _first(infos, destinations, is_encrypted=is_encrypted)
    except TimeoutError:
        raise ConnectionBrokenError("no connection in time") from None
    except (socket.gaierror, UnicodeError):  # the latter where a part of the name is too long, or none
        raise SourceError("name_not_found", "the name of the host is not found") from None
    except AddressRefusedError:
        raise SourceError("address_refused", "is at an address that nothing is read from") from None
    except OSError:
        raise ConnectionBrokenError("no connection") from None


async def _first(infos: list[Any], destinations: Destinations, *, is_encrypted: bool) -> socket.socket:
    """Return the first connection that comes about; raises what the last one did."""
    loop = asyncio.get_running_loop()
    problem: OSError = OSError("no address")
    for info in infos:
        made: socket.socket | None = None
        try:
            made = checked_socket(info, destinations, is_encrypted=is_encrypted)
            made.setblocking(False)  # noqa: FBT003 - the library's own
            await loop.sock_connect(made, info[4])
        except OSError as error:
            problem = error
        else:
            connected, made = made, None
            return connected
        finally:
            if made is not None:
                with contextlib.suppress(OSError):
                    made.close()
    raise problem
