"""The nftables rules of a namespace, with their hits. Namespaces without tables start no process."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Final

from lab.audit.objects.kernel_objects import NftRuleAudit
from lab.kernel.netlink.client import NetlinkClient, netlink_socket
from lab.kernel.process.process import find_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.kernel.process.netns import Namespace

_NETFILTER: Final = 12
"""NETLINK_NETFILTER of <linux/netlink.h>."""
_GET_TABLE: Final = 10 << 8 | 1
"""NFNL_SUBSYS_NFTABLES and NFT_MSG_GETTABLE of <linux/netfilter/nf_tables.h>."""
_ALL_FAMILIES: Final = bytes((socket.AF_UNSPEC, 0, 0, 0))
"""struct nfgenmsg: family, version, resource."""


def read_nft(namespace: Namespace) -> tuple[NftRuleAudit, ...]:
    """Return the rules and base chains of a namespace. Raises EnvironmentLacks if there are tables, but no nft(8)."""
    if not namespace.inside(has_tables_here):
        return ()
    said = namespace.run([find_tool("nft", "nftables"), "-j", "list", "ruleset"]).stdout
    return tuple(parse_ruleset(json.loads(said or "{}")))


def has_tables_here() -> bool:
    """Return whether the calling thread's namespace has a table; False on kernels without nftables."""
    try:
        with NetlinkClient(netlink_socket(_NETFILTER)) as client:
            return bool(client.dump(_GET_TABLE, _ALL_FAMILIES))
    except OSError:
        return False


def parse_ruleset(said: Mapping[str, Any]) -> Iterator[NftRuleAudit]:
    """Yield the rules and base chains of ``nft -j list ruleset``. Those of netdev belong to their device."""
    device_of: dict[str, str] = {}
    for entry in said.get("nftables", ()):
        if "policy" in (chain := entry.get("chain", {})):
            where = _name_of(chain)
            device_of[where] = str(chain.get("dev", "")) if isinstance(chain.get("dev", ""), str) else ""
            yield NftRuleAudit(
                chain=where, rule=f"hook {chain.get('hook', '')} policy {chain['policy']}", packets=0, bytes=0,
                interface=device_of[where],
            )  # fmt: skip
        if rule := entry.get("rule"):
            counters = [each["counter"] for each in rule["expr"] if isinstance(each.get("counter"), dict)]
            yield NftRuleAudit(
                chain=f"{rule['family']} {rule['table']} {rule['chain']}",
                rule=json.dumps([each for each in rule["expr"] if "counter" not in each], sort_keys=True),
                packets=sum(int(each.get("packets", 0)) for each in counters),
                bytes=sum(int(each.get("bytes", 0)) for each in counters),
                interface=device_of.get(f"{rule['family']} {rule['table']} {rule['chain']}", ""),
            )


def _name_of(chain: Mapping[str, Any]) -> str:
    return f"{chain['family']} {chain['table']} {chain['name']}"
