"""What the cases of netlab and FRR assert, as far as it can be told without running them, in the terms of our files.

Written by hand from the cases themselves; nothing here is what rocelab has said. Leaves are numbered in the order of
their file, and the tunnel of leaf n ends at 10.252.0.n (``lab.model.addressing``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wanted:
    """Of one case. Lists of names are words with spaces between."""

    floods: Mapping[int, str]
    """L2VNI: the leaves that have it. Each tells a route of type 3, and floods to all others."""
    ways: Mapping[str, str]
    """How hosts reach each other, and which: pairs, both ways. Whoever is in no pair must not."""
    routers: Mapping[int, str] = field(default_factory=dict)
    """L3VNI: the leaves that have it."""
    routes: Mapping[str, str] = field(default_factory=dict)
    """Leaf, tenant and prefix: the leaves that tell it by type 5, or a router outside, or another of its tenants."""
    gateways: Mapping[str, str] = field(default_factory=dict)
    """Address: the leaves that have it, all with one MAC."""
    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Switch: lines that its FRR is told, those of one text in this order with nothing between."""
    lacks: tuple[str, ...] = ()
    """What no switch is told."""
    groups: Mapping[int, str] = field(default_factory=dict)
    """L2VNI: the multicast group that it floods to."""
    segments: Mapping[str, str] = field(default_factory=dict)
    """Leaf and bond: the segment's identifier, and its other leaves."""


ALL = "leaf1 leaf2"
REFLECTS = ("address-family l2vpn evpn", "neighbor CLIENTS activate", "neighbor CLIENTS route-reflector-client")
TARGET = "vni 1000", "route-target import 65000:1000", "route-target export 65000:1000"
_BY_IBGP = {"spine1": ("\n".join(REFLECTS),), "leaf1": ("neighbor OVERLAY remote-as internal", "router ospf")}

NETLAB_EVPN = {
    "01-vxlan-bridging": Wanted(
        floods={1000: ALL, 1001: ALL},
        ways={"bridged 1000": "h1-h2", "bridged 1001": "h3-h4"},
        lines=_BY_IBGP,
    ),
    "03-vxlan-symmetric-irb": Wanted(
        floods={1000: ALL, 1001: "leaf1", 1002: "leaf2"},
        routers={5042: ALL},
        ways={"bridged 1000": "h1-h2", "routed": "h1-h3 h2-h4", "routed 5042": "h1-h4 h2-h3 h3-h4"},
        routes={"leaf1 customer 10.1.30.0/24": "leaf2", "leaf2 customer 10.1.20.0/24": "leaf1"},
        gateways={"10.1.10.1/24": ALL, "10.1.20.1/24": "leaf1", "10.1.30.1/24": "leaf2"},
        lines={"leaf1": ("vrf customer\nvni 5042", "router ospf")},
    ),
    "05-vxlan-l3only": Wanted(
        floods={1000: "leaf1", 1001: "leaf2"},
        routers={5042: ALL},
        ways={"routed 5042": "h1-h2"},
        routes={"leaf1 customer 10.1.20.0/30": "leaf2", "leaf2 customer 10.1.10.0/30": "leaf1"},
        gateways={"10.1.10.1/30": "leaf1", "10.1.20.1/30": "leaf2"},
    ),
    "10-vxlan-rr": Wanted(
        floods={1000: ALL},
        ways={"bridged 1000": "h1-h2"},
        lines=_BY_IBGP | {"leaf2": ("neighbor 10.254.0.1 peer-group OVERLAY", "router ospf6")},
    ),
    "11-vxlan-ebgp": Wanted(
        floods={1000: "leaf1 leaf2 leaf3"},
        ways={"bridged 1000": "h1-h2 h1-h3 h2-h3"},
        lines={
            "spine1": ("neighbor FABRIC remote-as external", "address-family l2vpn evpn\nneighbor FABRIC activate"),
            "leaf1": ("\n".join(TARGET),),
        },
        lacks=("OVERLAY", "CLIENTS"),
    ),
    "12-vxlan-ibgp-ebgp": Wanted(
        floods={1000: ALL},
        ways={"bridged 1000": "h1-h2"},
        lines={
            "spine1": ("neighbor FABRIC remote-as external", "\n".join(REFLECTS)),
            "leaf2": (
                "neighbor FABRIC local-as 4200100002 no-prepend replace-as",
                "neighbor OVERLAY remote-as internal",
                "address-family l2vpn evpn\nneighbor OVERLAY activate",
            ),
        },
        lacks=("router ospf",),
    ),
    "14-vxlan-ebgp-ebgp": Wanted(
        floods={1000: ALL},
        ways={"bridged 1000": "h1-h2"},
        lines={
            "spine1": ("neighbor OVERLAY ebgp-multihop 2", "neighbor 10.253.0.2 peer-group OVERLAY"),
            "leaf2": (
                "neighbor OVERLAY remote-as external",
                "address-family l2vpn evpn\nneighbor OVERLAY activate",
                "\n".join(TARGET),
            ),
        },
        lacks=("local-as", "route-reflector-client"),
    ),
    "15-vxlan-ebgp-unnumbered": Wanted(
        floods={1000: ALL},
        ways={"bridged 1000": "h1-h2"},
        lines={
            "leaf2": (
                "neighbor swp1 interface peer-group FABRIC",
                "address-family l2vpn evpn\nneighbor FABRIC activate",
                "\n".join(TARGET),
            ),
        },
        lacks=("OVERLAY", "CLIENTS"),
    ),
    "21-bgp-ce-router": Wanted(
        floods={1001: "leaf1", 1002: "leaf2", 1003: "leaf1", 1004: "leaf2"},
        routers={5042: ALL, 5067: ALL},
        ways={"routed 5042": "ce1-ce2", "routed 5067": "ce3-ce4"},
        routes={
            "leaf1 tenant 10.9.0.1/32": "10.1.1.2",
            "leaf1 tenant 10.1.2.0/30": "leaf2",
            "leaf1 tenant 10.9.0.2/32": "leaf2",
            "leaf2 tenant 10.9.0.2/32": "10.1.2.2",
            "leaf2 tenant 10.1.1.0/30": "leaf1",
            "leaf2 tenant 10.9.0.1/32": "leaf1",
            "leaf1 other 10.9.0.3/32": "10.1.3.2",
            "leaf1 other 10.1.4.0/30": "leaf2",
            "leaf1 other 10.9.0.4/32": "leaf2",
            "leaf2 other 10.9.0.4/32": "10.1.4.2",
            "leaf2 other 10.1.3.0/30": "leaf1",
            "leaf2 other 10.9.0.3/32": "leaf1",
        },
        lines={"leaf1": ("neighbor 10.1.1.2 remote-as 65101", "neighbor 10.1.3.2 remote-as 65103")},
    ),
}
_RED_AND_BLUE = Wanted(
    floods={5000: ALL, 5001: ALL},
    ways={"bridged": "h1-h1a h3-h3a", "bridged 5000": "h1-h2 h1a-h2", "bridged 5001": "h3-h4 h3a-h4"},
)
_THREE = "leaf1 leaf2 leaf3"
NETLAB_VXLAN = {
    "01-vxlan-bridging": _RED_AND_BLUE,
    "02-vxlan-bridging-multinode": Wanted(
        floods={5000: _THREE, 5001: _THREE},
        ways={
            "bridged": "h1-h1a h2-h2a h4-h4a h5-h5a",
            "bridged 5000": "h1-h2 h1-h2a h1a-h2 h1a-h2a h1-h3 h1a-h3 h2-h3 h2a-h3",
            "bridged 5001": "h4-h5 h4-h5a h4a-h5 h4a-h5a h4-h6 h4a-h6 h5-h6 h5a-h6",
        },
    ),
    "06-vxlan-bridging-multivendor": Wanted(
        floods={1000: _THREE, 1001: _THREE},
        ways={"bridged 1000": "h1-h2 h1-h3 h2-h3", "bridged 1001": "h4-h5 h4-h6 h5-h6"},
    ),
    "08-vxlan-alt-vtep": _RED_AND_BLUE,
}
