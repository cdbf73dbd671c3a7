"""Render the eBGP sessions between a border leaf and an external router, in a tenant's VRF and without BFD."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.overlay.node_plan import External

_TIMERS: Final = (3, 9)
"""Keepalive and hold time in seconds (RFC 4271 section 4.2), as inside the fabric."""
_RETRY: Final = 1


def external_peer(address: str, asn: int, description: str) -> Iterator[str]:
    """Yield one end of a session."""
    keepalive, hold = _TIMERS
    yield f" neighbor {address} remote-as {asn}"
    yield f" neighbor {address} description {description}"
    yield f" neighbor {address} timers {keepalive} {hold}"
    yield f" neighbor {address} timers connect {_RETRY}"


def external_router(external: External, leaf_asn: int) -> Iterator[str]:
    """Yield the router's BGP. It advertises its prefixes even without a route for them."""
    yield f"router bgp {external.asn}"
    four = (session.address.ip for session in external.sessions if session.address.version == 4)
    yield f" bgp router-id {next(four, IPv4Address(external.asn))}"
    yield " no bgp ebgp-requires-policy"
    yield " no bgp default ipv4-unicast"
    yield " no bgp network import-check"
    for session in external.sessions:
        yield from external_peer(str(session.gateway), leaf_asn, external.leaf)
    for session in external.sessions:
        version = session.address.version
        yield " !"
        yield f" address-family ipv{version} unicast"
        yield from (f"  network {prefix}" for prefix in external.prefixes if prefix.version == version)
        yield f"  neighbor {session.gateway} activate"
        yield " exit-address-family"
    yield "exit"
