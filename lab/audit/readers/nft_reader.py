"""The nftables rules of a namespace, with their hits. Namespaces without tables start no process."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Final

from lab.audit.objects.kernel_objects import NftRuleAudit
from lab.kernel.netlink.client import NetlinkClient, netlink_socket
from lab.kernel.netlink.nlmsg import attributes, each_attribute
from lab.kernel.process.process import find_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.kernel.process.netns import Namespace

_NETFILTER: Final = 12
"""NETLINK_NETFILTER of <linux/netlink.h>."""
_GET_TABLE: Final = 10 << 8 | 1
"""NFNL_SUBSYS_NFTABLES and NFT_MSG_GETTABLE of <linux/netfilter/nf_tables.h>."""
_GET_CHAIN: Final = 10 << 8 | 4
"""NFT_MSG_GETCHAIN of <linux/netfilter/nf_tables.h>."""
_CHAIN_TABLE: Final = 1
"""NFTA_CHAIN_TABLE of <linux/netfilter/nf_tables.h>; the others follow it."""
_CHAIN_NAME: Final = 3
_CHAIN_HOOK: Final = 4
_HOOK_DEVICE: Final = 3
"""NFTA_HOOK_DEV, and NFTA_HOOK_DEVS for a list."""
_HOOK_DEVICES: Final = 4
_NETDEV: Final = bytes((5, 0, 0, 0))
"""struct nfgenmsg of the family NFPROTO_NETDEV (<linux/netfilter.h>)."""
_ALL_FAMILIES: Final = bytes((socket.AF_UNSPEC, 0, 0, 0))
"""struct nfgenmsg: family, version, resource."""


def read_nft(namespace: Namespace) -> tuple[NftRuleAudit, ...]:
    """Return the rules and base chains of a namespace. Raises EnvironmentLacks if there are tables, but no nft(8)."""
    if not namespace.inside(has_tables_here):
        return ()
    said = namespace.run([find_tool("nft", "nftables"), "-j", "list", "ruleset"]).stdout
    found = json.loads(said or "{}")
    of_devices = any(each.get("chain", {}).get("family") == "netdev" for each in found.get("nftables", ()))
    return tuple(parse_ruleset(found, namespace.inside(chain_devices_here) if of_devices else {}))


def has_tables_here() -> bool:
    """Return whether the calling thread's namespace has a table; False on kernels without nftables."""
    try:
        with NetlinkClient(netlink_socket(_NETFILTER)) as client:
            return bool(client.dump(_GET_TABLE, _ALL_FAMILIES))
    except OSError:
        return False


def chain_devices_here() -> dict[str, str]:
    """Return the device of each chain of the family netdev that has one, by the chain's name. nft(8) 1.0 omits it.

    OSError if the kernel refuses.
    """
    with NetlinkClient(netlink_socket(_NETFILTER)) as client:
        return dict(devices_of(client.dump(_GET_CHAIN, _NETDEV)))


def devices_of(chains: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the name and the device of chains of one device, from messages of the kernel.

    Those of several devices belong to none of them.
    """
    for content in chains:
        found = attributes(content[len(_NETDEV) :])
        hook = attributes(found.get(_CHAIN_HOOK, b""))
        devices = [device for _, device in each_attribute(hook.get(_HOOK_DEVICES, b""))]
        devices = devices or [hook[each] for each in (_HOOK_DEVICE,) if each in hook]
        if len(devices) == 1:
            table, name, device = (_text(each) for each in (found[_CHAIN_TABLE], found[_CHAIN_NAME], devices[0]))
            yield f"netdev {table} {name}", device


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def parse_ruleset(said: Mapping[str, Any], devices: Mapping[str, str] | None = None) -> Iterator[NftRuleAudit]:
    """Yield the rules and base chains of ``nft -j list ruleset``; ``devices`` are those of chains, by name."""
    devices = devices or {}
    for entry in said.get("nftables", ()):
        if "policy" in (chain := entry.get("chain", {})):
            where = f"{chain['family']} {chain['table']} {chain['name']}"
            yield NftRuleAudit(
                chain=where, rule=f"hook {chain.get('hook', '')} policy {chain['policy']}", packets=0, bytes=0,
                interface=devices.get(where, ""),
            )  # fmt: skip
        if rule := entry.get("rule"):
            where = f"{rule['family']} {rule['table']} {rule['chain']}"
            counters = [each["counter"] for each in rule["expr"] if isinstance(each.get("counter"), dict)]
            yield NftRuleAudit(
                chain=where,
                rule=json.dumps([each for each in rule["expr"] if "counter" not in each], sort_keys=True),
                packets=sum(int(each.get("packets", 0)) for each in counters),
                bytes=sum(int(each.get("bytes", 0)) for each in counters),
                interface=devices.get(where, ""),
                number=int(rule.get("handle", 0)),
            )
