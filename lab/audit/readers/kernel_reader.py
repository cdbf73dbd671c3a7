"""The state of a namespace's kernel: iproute2's answers, in few processes, as audited objects.

iproute2 answers several requests in one process, names all options of all kinds, and its JSON is parsed faster than
netlink messages in Python.
"""

from __future__ import annotations

import errno
import json
import re
import socket
import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lab.audit.objects.audited_object import as_text
from lab.audit.objects.kernel_objects import (
    MAIN,
    AddressAudit,
    FdbAudit,
    FilterAudit,
    InterfaceAudit,
    NeighbourAudit,
    QdiscAudit,
    RouteAudit,
    RuleAudit,
    VlanAudit,
)
from lab.audit.readers.namespace_files import read_ipv6_mtus_here
from lab.dataplane.impair import FILTER_NAMES
from lab.errors import CommandFailed
from lab.kernel.netlink.client import NetlinkClient, dump, netlink_socket
from lab.kernel.netlink.ip_state import documents
from lab.kernel.process import tuning
from lab.kernel.process.process import find_tool
from lab.wire.header_fields import is_group_mac

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.kernel.process.netns import Namespace

Shown: TypeAlias = "Mapping[str, Any]"

_EMATCH: Final = re.compile(r"\n((?:[ \t]+[^\n]*\n)+)(?=[,}])")
"""Indented lines, which the JSON of iproute2 has nowhere else."""
_IP: Final = (
    "address show", "route show table all", "neigh show", "rule show", "neigh show nud noarp", "neigh show proxy",
)  # fmt: skip
_NETLINK_XFRM: Final = 6
"""NETLINK_XFRM of <linux/netlink.h>."""
_GET_POLICY: Final = 21
"""XFRM_MSG_GETPOLICY of <linux/xfrm.h>."""
_POLICY: Final = struct.Struct("=16s16s8xHBBB3x4x4x64x32xIIBB")
"""struct xfrm_userpolicy_info of <linux/xfrm.h>, with its selector: without ports, interface, user and lifetimes."""
_DIRECTIONS: Final = ("in", "out", "fwd")
_GETRULE: Final = 34
"""RTM_GETRULE of <linux/rtnetlink.h>."""
_FIB_RULE: Final = struct.Struct("=8BI")
"""struct fib_rule_hdr of <linux/fib_rules.h>: its fifth member is the table."""
_FRA_PRIORITY: Final = 6
_DEFAULT_RULES: Final = {0: ("local", 255), 32766: ("main", 254)}
"""Name and number of the table that each rule of a new namespace looks up, by priority."""
_TIMER: Final = (
    "_timer",
    "topology_change",
    "topology_change_ack",
    "topology_change_detected",
    "fdb_n_learned",
    "config_pending",
)
"""Ends of the names of options that change by themselves (ip-link(8), bridges)."""
_ADMIN_FLAGS: Final = ("PROMISC", "ALLMULTI", "NOARP")
"""Flags that only an administrator sets; captures do not."""
_NICS: Final = frozenset({"", "veth"})
"""Kinds of interfaces whose offloads are compared. Those of bridges and bonds follow from their members."""
NO_MULTICAST: Final = "NOMULTICAST"
"""The option of an interface that joins no group (``ip link set multicast off``): ND and OSPF do not work there."""
_SEGMENTATION: Final = {"gso_max_size": 65_536, "gso_max_segs": 65_535, "gro_max_size": 65_536}
"""Limits of packets that the stack builds or segments (ip-link(8)), with their defaults in <linux/netdevice.h>."""
IPV6_MTU: Final = "ipv6 mtu"
"""The option of an interface whose MTU for IPv6 is another one than its own (``net.ipv6.conf.INTERFACE.mtu``)."""
_HOOKS: Final = {"clsact": ("ingress", "egress"), "ingress": ("ingress",)}
_FILTERLESS: Final = frozenset({"noqueue", "pfifo_fast", "fq_codel", "mq", "pfifo", "tbf"})
_COUNTED: Final = ("bytes", "packets", "drops", "overlimits", "requeues", "backlog", "qlen")
_ADDRESS_FLAGS: Final = ("deprecated", "dadfailed", "tentative")
_ROUTE_FIELDS: Final = frozenset(
    {"type", "dst", "dev", "gateway", "via", "table", "protocol", "metric", "nexthops", "flags", "weight", "expires",
     "pref", "cache", "nhid", "error", "tos"}
)  # fmt: skip
_DEFAULT: Final = {4: "0.0.0.0/0", 6: "::/0"}
_SELECTORS: Final = {
    "src": "from", "dst": "to", "fwmark": "fwmark", "iif": "iif", "oif": "oif", "uid": "uidrange",
    "ipproto": "ipproto", "sport": "sport", "dport": "dport", "tos": "tos", "l3mdev": "l3mdev", "tun_id": "tun_id",
}  # fmt: skip
"""The words of ip-rule(8) by the names of iproute2's JSON. Ranges have a start and an end there."""
_ACTIONS: Final = {"table": "lookup {}", "goto": "goto {}", "nop": "nop", "action": "{}"}
_SUPPRESSED: Final = {"suppress_prefixlen": "suppress_prefixlength", "suppress_ifgroup": "suppress_ifgroup"}
_EXTERNAL: Final = "extern_learn"
"""The flag of entries that a daemon learned (ip-neighbour(8))."""


@dataclass(frozen=True, slots=True)
class KernelState:
    """The objects that a namespace's kernel has."""

    interfaces: tuple[InterfaceAudit, ...]
    addresses: tuple[AddressAudit, ...]
    routes: tuple[RouteAudit, ...]
    rules: tuple[RuleAudit, ...]
    neighbours: tuple[NeighbourAudit, ...]
    qdiscs: tuple[QdiscAudit, ...]
    filters: tuple[FilterAudit, ...]
    fdb: tuple[FdbAudit, ...]
    vlans: tuple[VlanAudit, ...]


def read_kernel(namespace: Namespace) -> KernelState:
    """Return the kernel's state of a namespace. CommandFailed if iproute2 fails, OperationFailed if it is gone."""
    shown, routes, neighbours, rules, unresolved, proxies = _ask(namespace, "ip", _IP)
    queues = _ask(namespace, "tc", ["qdisc show"])[0]
    bridged = any(_kind(each) in {"bridge", "vxlan"} for each in shown)
    tables = _bridge_tables(namespace) if bridged else [[], []]
    ports = [str(each["ifname"]) for each in shown if _kind(each) in _NICS and "LOOPBACK" not in each["flags"]]
    offloads = namespace.inside(lambda: tuning.offloads(ports))
    mtus = namespace.inside(lambda: read_ipv6_mtus_here(ports))
    return KernelState(
        interfaces=tuple(_interface(each, offloads, mtus) for each in shown),
        addresses=tuple(address for each in shown for address in _addresses(each)),
        routes=tuple(parse_routes(routes)),
        rules=(*(_rule("inet", each) for each in rules), *_rules_of_ipv6(namespace)),
        neighbours=tuple(
            _neighbour(each)
            for each in (*neighbours, *configured_without_arp(unresolved, shown), *proxies)
            if "dev" in each
        ),
        qdiscs=tuple(map(_qdisc, queues)),
        filters=tuple(_filters(namespace, queues)),
        fdb=tuple(_fdb(each) for each in tables[0] if not _is_group_member(each)),
        vlans=tuple(vlan for each in tables[1] for vlan in _vlans(each)),
    )


def _ask(namespace: Namespace, tool: str, lines: Sequence[str], *options: str) -> list[Any]:
    """Return the answer to each line of a batch."""
    command = [find_tool(tool, "iproute2"), *options, "-json", "-details", "-statistics", "-batch", "-"]
    answer = namespace.run(command, stdin="".join(f"{line}\n" for line in lines)).stdout
    return documents(_EMATCH.sub(_as_member, answer), len(lines))


def _as_member(found: re.Match[str]) -> str:
    """Return the match of a filter of kind basic as a member of its options, which tc(8) prints as text."""
    return f',"ematch":{json.dumps(" ".join(found[1].split()))}'


def _bridge_tables(namespace: Namespace) -> list[Any]:
    """Return the FDB and the VLANs of bridges; no VLANs if the kernel has none (CONFIG_BRIDGE_VLAN_FILTERING)."""
    try:
        return _ask(namespace, "bridge", ["fdb show", "vlan show"])
    except CommandFailed:
        return [*_ask(namespace, "bridge", ["fdb show"]), []]


def _kind(shown: Shown) -> str:
    return str(shown.get("linkinfo", {}).get("info_kind", ""))


def _interface(shown: Shown, offloads: Mapping[str, tuple[str, ...]], ipv6_mtus: Mapping[str, int]) -> InterfaceAudit:
    info = shown.get("linkinfo", {})
    options = {
        **_flat(info.get("info_data", {})),
        **_flat(info.get("info_slave_data", {}), "port "),
    }
    options |= {flag: "yes" for flag in _ADMIN_FLAGS if flag in shown["flags"]}
    if not {"MULTICAST", "LOOPBACK", "POINTOPOINT", "NOARP"} & {*shown["flags"]}:
        options[NO_MULTICAST] = "yes"
    if shown["ifname"] in offloads:
        options["offloads"] = as_text(offloads[shown["ifname"]])
        options |= {
            name: str(shown[name]) for name, usual in _SEGMENTATION.items() if shown.get(name, usual) != usual
        }
    if ipv6_mtus.get(shown["ifname"], shown["mtu"]) != shown["mtu"]:
        options[IPV6_MTU] = str(ipv6_mtus[shown["ifname"]])
    if "xdp" in shown:
        options["xdp"] = _compact(shown["xdp"])
    received, sent = (shown.get("stats64", {}).get(way, {}) for way in ("rx", "tx"))
    return InterfaceAudit(
        name=str(shown["ifname"]),
        kind=_kind(shown),
        up="UP" in shown["flags"],
        carrier="LOWER_UP" in shown["flags"],
        mtu=int(shown["mtu"]),
        mac=str(shown.get("address", "")),
        master=str(shown.get("master", "")),
        queue_length=int(shown.get("txqlen", 0)),
        options=options,
        counters={f"rx {name}": value for name, value in received.items()}
        | {f"tx {name}": value for name, value in sent.items()},
    )


def _flat(shown: Shown, before: str = "") -> dict[str, str]:
    """Return options as text, without those that change by themselves.

    A bridge with a spanning tree forgets addresses after twice its forward delay while its topology changes. A
    shorter time is always a setting.
    """
    kept = int(shown.get("ageing_time", 0)) < 2 * int(shown.get("forward_delay", 0))
    moving = {"ageing_time"} if shown.get("stp_state") and not kept else set()
    return {
        f"{before}{name}": _compact(value)
        for name, value in shown.items()
        if not name.endswith(_TIMER) and "mcast" not in name and name not in moving
    }


def _compact(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _addresses(shown: Shown) -> Iterator[AddressAudit]:
    for each in shown.get("addr_info", ()):
        if "local" in each:
            flags = tuple(flag for flag in _ADDRESS_FLAGS if each.get(flag))
            address = f"{each['local']}/{each['prefixlen']}"
            yield AddressAudit(
                interface=str(shown["ifname"]), address=address, scope=str(each.get("scope", "")), flags=flags
            )


def parse_routes(shown: Iterable[Shown]) -> Iterator[RouteAudit]:
    """Yield the routes of ``ip -json -details route show table all``; routes of one identity are one multipath route.

    Entries of the routing cache are omitted.
    """
    grouped: dict[tuple[str, str, str, str], list[Shown]] = {}
    for each in shown:
        if "cache" not in each and "cloned" not in each.get("flags", ()):
            metric = str(each.get("metric") or "")
            tos = "" if "encap" in each else str(each.get("tos", ""))  # that of an encapsulation has the same name
            identity = _prefix(each), str(each.get("table", MAIN)), metric, tos
            grouped.setdefault(identity, []).append(each)
    for (prefix, table, metric, tos), members in grouped.items():
        first = members[0]
        hops = sorted(hop for each in members for hop in _next_hops(each))
        options = {
            name: _compact(value) for name, value in first.items() if name not in _ROUTE_FIELDS and value != []
        }
        yield RouteAudit(
            prefix=prefix,
            table=table,
            metric=metric,
            type=str(first.get("type", "unicast")),
            protocol=str(first.get("protocol", "")),
            next_hops=tuple(hops),
            options=options,
            tos=tos,
        )


def _prefix(shown: Shown) -> str:
    """Return a route's prefix with its length, which ip omits for single addresses and default routes."""
    prefix = str(shown["dst"])
    if prefix == "default":
        hops = [shown, *shown.get("nexthops", ())]
        gateways = "".join(str(hop.get("gateway", "")) for hop in hops if "via" not in hop)
        return _DEFAULT[6 if ":" in gateways or "pref" in shown else 4]
    return prefix if "/" in prefix else f"{prefix}/{128 if ':' in prefix else 32}"


def _next_hops(shown: Shown) -> Iterator[str]:
    """Yield each next hop as ``via GATEWAY dev INTERFACE``."""
    for hop in shown.get("nexthops", [shown]):
        gateway = hop.get("gateway") or hop.get("via", {}).get("host", "")
        weight = int(hop.get("weight", 1))
        words = [
            *(["via", str(gateway)] if gateway else []),
            *(["dev", str(hop["dev"])] if "dev" in hop else []),
            *(["weight", str(weight)] if weight > 1 else []),
            *(flag for flag in hop.get("flags", ()) if flag in {"dead", "linkdown", "onlink"}),
        ]
        if words:
            yield " ".join(words)


def _rules_of_ipv6(namespace: Namespace) -> list[RuleAudit]:
    """Return the rules of IPv6, which a batch of ``ip`` does not list; few nodes have others than the default."""
    found = {}
    for each in namespace.inside(lambda: dump(_GETRULE, _FIB_RULE, bytes([socket.AF_INET6]))):
        priority = int.from_bytes(each.attributes.get(_FRA_PRIORITY, b""), sys.byteorder)
        found[priority] = _FIB_RULE.unpack(each.fixed)[4]
    if found == {priority: table for priority, (_, table) in _DEFAULT_RULES.items()}:
        return [
            RuleAudit(family="inet6", priority=priority, selector="", action=f"lookup {name}")
            for priority, (name, _) in _DEFAULT_RULES.items()
        ]
    return [_rule("inet6", each) for each in _ask(namespace, "ip", ["rule show"], "-6")[0]]


def read_ipsec_here() -> tuple[FilterAudit, ...]:
    """Return the policies of IPsec of the calling thread's namespace, which can block packets (ip-xfrm(8)).

    None on kernels without IPsec. OSError if the kernel refuses for another reason.
    """
    try:
        link = netlink_socket(_NETLINK_XFRM)
    except OSError as error:
        if error.errno == errno.EPROTONOSUPPORT:
            return ()
        raise
    with NetlinkClient(link) as client:
        return tuple(map(ipsec_policy, filter(_is_of_namespace, client.dump(_GET_POLICY, bytes(4)))))


def _is_of_namespace(policy: bytes) -> bool:
    """Return whether a policy is none of a socket, which affects only that."""
    direction: int = _POLICY.unpack_from(policy)[-2]
    return direction < len(_DIRECTIONS)


def ipsec_policy(content: bytes) -> FilterAudit:
    """Return the policy of a ``struct xfrm_userpolicy_info`` (<linux/xfrm.h>)."""
    to, source, family, to_length, from_length, protocol, priority, index, direction, action = _POLICY.unpack_from(
        content
    )
    size = 4 if family == socket.AF_INET else 16
    ends = [f"{socket.inet_ntop(family, each[:size])}/{length}" if family else "all"
            for each, length in ((source, from_length), (to, to_length))]  # fmt: skip
    said = f"{'block' if action else 'allow'} from {ends[0]} to {ends[1]}" + (
        f" proto {protocol}" if protocol else ""
    )
    return FilterAudit(
        interface="",
        hook=_DIRECTIONS[direction],
        priority=priority,
        handle=str(index),
        kind="xfrm",
        match=said,
        hits=0,
    )


def _rule(family: str, shown: Shown) -> RuleAudit:
    """Return a rule with its selector and action as ip-rule(8) takes them."""
    said = [f"{word} {value}".strip() for word, value in _selectors(shown) if value != "all"]
    action = next((form.format(shown[name]) for name, form in _ACTIONS.items() if name in shown), "")
    further = [f"{word} {shown[name]}" for name, word in _SUPPRESSED.items() if name in shown]
    return RuleAudit(
        family=family, priority=int(shown["priority"]),
        selector=" ".join([*(["not"] if "not" in shown else []), *said]),
        action=" ".join(filter(None, [action, *further])),
    )  # fmt: skip


def _selectors(shown: Shown) -> Iterator[tuple[str, str]]:
    """Yield the words of a rule, as in ip-rule(8), with their values; "" for a word without one, like ``l3mdev``."""
    for name, word in _SELECTORS.items():
        if f"{name}_start" in shown:
            value = f"{shown[f'{name}_start']}-{shown[f'{name}_end']}"
        elif name in shown:
            value = _compact(shown[name]) if shown[name] is not None else ""
        else:
            continue
        length, mask = shown.get(f"{name}len"), shown.get("fwmask") if name == "fwmark" else None
        yield word, value + (f"/{length}" if length else "") + (f"/{mask}" if mask else "")


def configured_without_arp(shown: Iterable[Shown], links: Iterable[Shown]) -> list[Shown]:
    """Return the entries in the state NOARP that a command added.

    The kernel adds others: of groups, and on interfaces that do not resolve addresses with their own MAC. A daemon
    adds those of remote hosts (RFC 7432 section 10), which are among the other entries, too.
    """
    own = {each.get("ifname"): each.get("address") for each in links}
    known = ((each, str(each.get("lladdr", ""))) for each in shown if _EXTERNAL not in each)
    return [each for each, mac in known if mac and not is_group_mac(mac) and mac != own.get(each.get("dev"))]


def _neighbour(shown: Shown) -> NeighbourAudit:
    states = tuple(map(str, shown.get("state", ())))
    return NeighbourAudit(
        interface=str(shown["dev"]),
        address=str(shown["dst"]),
        mac=str(shown.get("lladdr", "")),
        permanent="proxy" in shown or "PERMANENT" in states or ("NOARP" in states and _EXTERNAL not in shown),
        state=" ".join(states),
        proxy="proxy" in shown,
    )


def _qdisc(shown: Shown) -> QdiscAudit:
    parent = "root" if shown.get("root") else str(shown.get("parent", ""))
    return QdiscAudit(
        interface=str(shown.get("dev", "")),
        parent=parent,
        kind=str(shown["kind"]),
        handle=str(shown.get("handle", "")),
        options=_flat(shown.get("options", {})),
        counters={name: int(shown[name]) for name in _COUNTED if name in shown},
    )


def _filters(namespace: Namespace, queues: Iterable[Shown]) -> Iterator[FilterAudit]:
    """Yield the filters of all hooks, and of root qdiscs with classes.

    Impairments are left out: they emulate a faulty cable or device, which no setting of a real node shows.
    """
    places = [(str(each["dev"]), hook) for each in queues for hook in _places(each)]
    if not places:
        return
    lines = [f"filter show dev {device} {hook}" for device, hook in places]
    for (device, hook), listed in zip(places, _ask(namespace, "tc", lines), strict=True):
        # The first entry of each priority only reports its existence.
        yield from (_filter(device, hook, each) for each in listed if _is_setting(each.get("options")))


def _is_setting(options: Any) -> bool:
    return bool(options) and options.get("bpf_name") not in FILTER_NAMES


def _places(queue: Shown) -> tuple[str, ...]:
    kind = str(queue["kind"])
    if kind in _HOOKS:
        return _HOOKS[kind]
    plain = kind in _FILTERLESS or kind.startswith("rl_")
    return ("root",) if queue.get("root") and not plain else ()


def _filter(device: str, hook: str, shown: Shown) -> FilterAudit:
    counted: list[int] = []
    options = _without_counts(dict(shown["options"]), counted)
    handle = str(options.pop("handle", options.pop("fh", "")))
    return FilterAudit(
        interface=device,
        hook=hook,
        priority=int(shown.get("pref", 0)),
        handle=handle,
        kind=str(shown.get("kind", "")),
        match=f"{shown.get('protocol', '')} {_compact(options)}".strip(),
        hits=max(counted, default=0),
    )


_COUNTS: Final = frozenset({"stats", "installed", "last_used", "first_used", "used_hw_stats", "rule hit", "success"})


def _without_counts(shown: Any, counted: list[int]) -> Any:
    """Return a filter's options without counters and ages, and add the packets of its actions to ``counted``."""
    if isinstance(shown, dict):
        if "stats" in shown:
            counted.append(int(shown["stats"].get("packets", 0)))
        return {name: _without_counts(value, counted) for name, value in shown.items() if name not in _COUNTS}
    return [_without_counts(each, counted) for each in shown] if isinstance(shown, list) else shown


def _is_group_member(shown: Shown) -> bool:
    """Return whether an entry is a multicast group that the interface itself has joined."""
    return "dst" not in shown and is_group_mac(str(shown["mac"]))


def _fdb(shown: Shown) -> FdbAudit:
    state = str(shown.get("state", ""))
    flags = tuple(map(str, shown.get("flags", ())))
    learned = "extern_learn" in flags or state not in {"permanent", "static"}
    return FdbAudit(
        mac=str(shown["mac"]),
        interface=str(shown.get("ifname", "")),
        vlan=str(shown.get("vlan", "")),
        remote=str(shown.get("dst", "")),
        vni=str(shown.get("vni", "")),
        permanent=not learned,
        flags=flags,
    )


def _vlans(shown: Shown) -> Iterator[VlanAudit]:
    for each in shown.get("vlans", ()):
        for number in range(int(each["vlan"]), int(each.get("vlanEnd", each["vlan"])) + 1):
            yield VlanAudit(str(shown["ifname"]), number, tuple(map(str, each.get("flags", ()))))
