"""Kinds of settings: what each can do to packets, and where.

A row describes a kind of object, and no single fault: a filter can drop packets at its port, a route only inside its
node. Settings of no row, like those of TCP, cannot disturb RDMA.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.audit.objects.routing_objects import BFD_SHUTDOWN, BGP_SHUTDOWN
from lab.audit.rules.route_widths import ADVERTISED
from lab.diagnose.conservation.locations import PacketEffect

if TYPE_CHECKING:
    from lab.diagnose.differing import DifferingSetting


class SettingReach(StrEnum):
    """The places at which a setting can have its effect."""

    NODE = "inside its node"
    PORT = "at its port: on the link in either direction, and inside the node"
    PEER = "inside its node, and inside the node at the other end of its port"


@dataclass(frozen=True, slots=True)
class SettingKind:
    """A kind of settings, as the cause that it is if packets are lost or altered within its reach."""

    cause: str
    title: str
    objects: frozenset[str]
    """Kinds of audited objects."""
    fields: re.Pattern[str]
    """The settings, or for sysctls the names."""
    effects: frozenset[PacketEffect]
    reach: SettingReach
    same: frozenset[str]
    """Causes that name the same setting: none is added to them."""
    words: str
    pings: bool = False
    """Whether it affects pings only."""


SHUTDOWN: Final = "session-shutdown"
"""The cause of what ``is_shutdown`` is."""
_SHUTTING: Final = re.compile(r"^(?:neighbor \S+ |bgp )?shutdown(?: message .*)?$")
"""A line of FRR's configuration that shuts sessions."""
_SHUT_PORT: Final = re.compile(r"^frr interface \S+(?: vrf \S+)? / shutdown$")
"""The line by which FRR shuts a port. The section of a member of a VRF names that, too."""
_HOOK: Final = "ffff:fff1"
"""The parent of clsact and ingress, TC_H_CLSACT (<linux/pkt_sched.h>)."""
XDP: Final = "xdp"
"""The option of an interface whose packets a program of BPF sees before the IP stack (ip-link(8))."""
_LOSS: Final = frozenset({PacketEffect.VANISH, PacketEffect.DROP})
_ANY: Final = frozenset(PacketEffect)
_ALL: Final = re.compile("")


def _kind(  # noqa: PLR0913, PLR0917 - a row has that many columns
    cause: str, title: str, objects: str, fields: str, effects: frozenset[PacketEffect], reach: SettingReach,
    same: str, words: str, *, pings: bool = False,
) -> SettingKind:  # fmt: skip
    pattern = re.compile(fields) if fields else _ALL
    return SettingKind(
        cause=cause, title=title, objects=frozenset(objects.split(",")), fields=pattern, effects=effects, reach=reach,
        same=frozenset(same.split()), words=words, pings=pings,
    )  # fmt: skip


SETTING_KINDS: Final = (
    *(
        _kind(
            "filter-differs", "a packet filter stands where siblings have none", objects, fields, _ANY,
            SettingReach.PORT, "",
            "A rule of nftables or tc, or a program of XDP, drops, limits or alters packets. No counter of a port"
            " shows it.",
        )
        for objects, fields in (("nft,filter", ""), ("interface", f"^{XDP}$"))
    ),
    _kind(
        "mtu-differs", "a port or route has another MTU than its siblings or the other end of its link",
        "interface,port,route",
        r"^(ipv6 )?mtu$", _LOSS, SettingReach.PORT, "mtu-black-hole vxlan-mtu", "Packets of full size do not pass.",
    ),
    _kind(
        "route-differs", "a route or rule takes precedence over those of its siblings", "route,rule", "", _LOSS,
        SettingReach.NODE, "wrong-gateway default-route-lost static-route routing-loop one-path-only",
        "A rule, a typed route or one to fewer addresses is used in place of the learned route.",
    ),
    *(
        _kind(
            "neighbour-differs", "a node sends to a MAC that its neighbour does not have, or resolves none", objects,
            fields, _LOSS, SettingReach.PEER, "stale-neighbour duplicate-mac",
            "Frames go to an address that no device has, or an address is not resolved any more.",
        )
        for objects, fields in (
            ("neighbour,fdb", ""), ("interface,sysctl", r"^(NOARP|NOMULTICAST|.*\.arp_\w+|.*\.neigh\..*)$"),
        )
    ),
    _kind(
        "link-differs", "a port is shut", "interface", r"^(up|carrier)$", _LOSS, SettingReach.PORT,
        "link-flap link-cut power-lost leaf-dies rehash-on-failure", "Nothing passes the link.",
    ),
    _kind(
        "hash-differs", "a switch hashes other fields than its siblings", "sysctl", r"multipath",
        frozenset({PacketEffect.REORDER}), SettingReach.NODE, "hash-polarisation elephant-collision one-path-only",
        "It spreads flows over fewer of its equal-cost paths, or moves them to others.",
    ),
    _kind(
        "echo-differs", "a node does not answer pings, unlike its siblings", "sysctl", r"icmp_?echo|echo_ignore",
        frozenset(), SettingReach.NODE, "", "Only pings are lost. RDMA does not depend on them.", pings=True,
    ),
    _kind(
        "forwarding-differs", "a node's IP stack forwards or accepts packets otherwise than its siblings", "sysctl",
        r"(forward|rp_filter|addr_gen|disable_(ipv6|policy|xfrm)|accept_local|route_localnet|src_valid|drop_|proxy_arp|ttl)",
        _ANY, SettingReach.NODE, "",
        "The kernel discards packets that it would forward or accept with the setting of its siblings.",
    ),
    _kind(
        "queue-differs", "another queueing discipline stands in place of a port's queues", "qdisc", "", _ANY,
        SettingReach.PORT, "", "It limits, delays or drops packets, and the port's classes and pauses are gone.",
    ),
    _kind(
        "bridge-differs", "a bridge port, VLAN or tunnel of a switch is configured otherwise", "vlan,vni,interface",
        r"^(presence|flags|master|port( .*)?|state|learning|flood|isolated|remotes|tunnel|local|type|id|vlan.*"
        r"|ttl|df|tos|port_range|udp_\w+|proxy|rsc|external|gbp|group|fdb_max_learned"
        r"|priority|ageing_time|stp_state|forward_delay|hello_time|max_age)$",
        _LOSS, SettingReach.PEER, "evpn-vni-mismatch vlan-stp-blocked esi-mismatch",
        "Frames of a network are not bridged between all of its ports, or their tunnels are dropped.",
    ),
    _kind(
        "session-differs", "a routing session is down, or configured otherwise", "bgp session,bfd session,frr,daemon",
        "", _LOSS, SettingReach.NODE, "daemon-killed daemon-stopped evpn-af-missing evpn-no-imet evpn-rt-mismatch"
        " one-path-only link-cut link-flap vtep-unreachable",
        "Routes over this session are missing, or are not those of its siblings.",
    ),
    _kind(
        SHUTDOWN, "a routing session is administratively shut down", "", "", _LOSS, SettingReach.NODE,
        "one-path-only", "No packet of others leads over it, and it comes back by a command only.",
    ),
    _kind(
        "daemon-silent", "a routing daemon does not answer", "node", r"^(zebra|\w+d)$", _LOSS, SettingReach.NODE,
        "daemon-killed daemon-stopped", "It accepts requests for its configuration, and answers none.",
    ),
    _kind(
        "address-differs", "an address is missing or new, in another network, or has several owners", "address", "",
        _LOSS, SettingReach.PEER, "wrong-address gid-index duplicate-mac",
        "Packets for it arrive at another node, or at none.",
    ),
    _kind(
        "class-differs", "a port maps DSCPs or priorities otherwise", "port",
        r"^(trust|dscp_to_priority|pcp_to_priority|priority_to_group)", _ANY, SettingReach.PORT,
        "dscp-map-mismatch dscp-rewritten", "Packets change their class, and leave the lossless queue.",
    ),
    _kind(
        "pfc-differs", "a port sends or obeys pauses otherwise", "port", r"^pfc\.(?!watchdog)",
        frozenset({PacketEffect.DROP, PacketEffect.HOLD, PacketEffect.VANISH}), SettingReach.PORT, "pfc-one-sided",
        "Under load it drops packets of the lossless class, or waits too long.",
    ),
    _kind(
        "watchdog-differs", "a port's PFC watchdog is configured otherwise", "port", r"^pfc\.watchdog",
        frozenset({PacketEffect.DROP, PacketEffect.HOLD}), SettingReach.PORT,
        "pfc-watchdog-missing pfc-watchdog-loop", "It takes pauses for a storm, or a storm for pauses.",
    ),
    _kind(
        "buffer-differs", "a port's buffer has other thresholds", "port", r"^(groups|pool|queues\.\d+\.limit)",
        frozenset({PacketEffect.DROP, PacketEffect.HOLD, PacketEffect.VANISH}), SettingReach.PORT,
        "headroom-too-small", "It pauses too early or too late, and drops what arrives.",
    ),
    _kind(
        "ecn-differs", "a port marks at other queue lengths, or not at all", "port", r"^queues\.\d+\.ecn",
        frozenset(), SettingReach.PORT, "", "Senders slow down earlier or later than at its siblings.",
    ),
    _kind(
        "scheduler-differs", "a port's queue has another weight", "port", r"^(queues\.\d+\.weight|priority_to_queue)",
        frozenset({PacketEffect.DROP, PacketEffect.HOLD}), SettingReach.PORT, "",
        "Under load its class gets another share of the link.",
    ),
    _kind(
        "rate-differs", "a port has another rate than its siblings", "port", r"^(rate|drain)$",
        frozenset({PacketEffect.DROP, PacketEffect.HOLD}), SettingReach.PORT, "link-rate slow-receiver",
        "The link is full before its siblings are.",
    ),
    _kind(
        "delay-differs", "a link is longer than its siblings", "port", r"^(delay|reaction)$",
        frozenset({PacketEffect.DROP, PacketEffect.REORDER}), SettingReach.PORT, "link-delay",
        "Its headroom may be too small, and flows that change paths arrive out of order.",
    ),
    _kind(
        "congestion-control-differs", "a NIC's congestion control is configured otherwise", "port", r"^cc\.",
        frozenset({PacketEffect.DROP, PacketEffect.HOLD}), SettingReach.PORT,
        "dcqcn-off-on-one-host ecn-without-cc cc-parameters-differ", "It slows down earlier or later than others.",
    ),
    _kind(
        "rdma-device-differs", "an RDMA device or one of its GIDs is missing", "rdma device,gid", "", _LOSS,
        SettingReach.NODE, "rdma-device-lost gid-index", "No program of the host reaches the fabric by RDMA.",
    ),
)  # fmt: skip
"""The first row that has an object's kind and setting is that of the setting."""
INFERRED: Final = frozenset({
    "acl-4791", "silent-drop", "gray-loss", "link-cut", "link-delay", "mtu-black-hole", "cnp-lost", "routing-loop",
    "dscp-rewritten", "elephant-collision", "link-reorder", "queue-replaced",
})  # fmt: skip
"""Causes that are concluded from packets, without having seen a setting: one that explains them replaces them."""


def kind_of(setting: DifferingSetting) -> SettingKind | None:
    """Return the kind of a setting; None for one that cannot disturb RDMA."""
    if setting.harmless:
        return None
    if is_missing_interface(setting) or is_shut_port(setting):
        return next(each for each in SETTING_KINDS if each.cause == "link-differs")
    if is_shutdown(setting):
        return next(each for each in SETTING_KINDS if each.cause == SHUTDOWN)
    if setting.setting == ADVERTISED:  # of a route, but a line of its switch's configuration is missing
        return next(each for each in SETTING_KINDS if each.cause == "session-differs")
    names = {"sysctl": setting.object.partition(" ")[2], "node": setting.object}
    name = names.get(setting.kind, setting.setting)
    kind = "filter" if is_filter_hook(setting) else setting.kind
    return next((each for each in SETTING_KINDS if kind in each.objects and each.fields.search(name)), None)


def is_missing_interface(setting: DifferingSetting) -> bool:
    """Return whether a setting is an interface that does not exist: of a port, its cable is gone, too."""
    return (setting.kind, setting.setting) == ("interface", "presence") and setting.value.startswith("absent")


def is_shut_port(setting: DifferingSetting) -> bool:
    """Return whether an administrator shut a port, by FRR's configuration or in the kernel."""
    if setting.kind == "frr":
        return is_new(setting) and bool(_SHUT_PORT.search(setting.object))
    return (setting.kind, setting.setting, setting.value) == ("interface", "up", "no")


def is_shutdown(setting: DifferingSetting) -> bool:
    """Return whether an administrator shut a routing session, or all of a daemon, at its end.

    In FRR's configuration, the line ends with ``shutdown``, of a neighbour, a peer group, a peer or profile of BFD,
    or of all of BGP. A message to the peer can follow.
    """
    if setting.kind == "frr":
        line = setting.object.rpartition(" / ")[2].removeprefix("frr ")
        return is_new(setting) and not is_shut_port(setting) and bool(_SHUTTING.search(line))
    shut = {"bgp session": BGP_SHUTDOWN, "bfd session": BFD_SHUTDOWN}.get(setting.kind)
    return setting.setting in {"state", "status"} and setting.value == shut


def is_filter_hook(setting: DifferingSetting) -> bool:
    """Return whether a setting is a qdisc to which filters are attached: clsact or ingress. It queues nothing."""
    return setting.kind == "qdisc" and setting.object.endswith(f" {_HOOK}")


def is_new(setting: DifferingSetting) -> bool:
    """Return whether a setting is an object that should not exist."""
    return setting.setting == "presence" and setting.expected.startswith("absent")
