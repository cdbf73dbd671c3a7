"""The assertions of FRR's topotests, written by hand; and all cases, including those of netlab."""

from tests.unit.model.overlay.wanted import ALL, NETLAB_EVPN, NETLAB_VXLAN, REFLECTS, Wanted

_TORS = "torm11 torm12 torm21 torm22"
_ESI = "03:02:1a:00:00:00:02:00:00:0"
_BOTH = "route-target import 65:101\nroute-target export 65:101"
_PES = "pe1 pe2 pe3"
_ALL4 = "bordertor11 bordertor12 tor21 tor22"
_EXITS = {
    "bordertor11": ("192.0.2.4/30", "2001:db8:144:2::/64"),
    "bordertor12": ("192.0.2.12/30", "2001:db8:144:3::/64"),
    "bordertor11 bordertor12": ("198.51.102.0/24", "2001:db8:81:3::/64"),
}
FRR = {
    "bgp_evpn_mh/test_evpn_mh": Wanted(
        floods={1000: _TORS},
        ways={"bridged 1000": "d11-d21 d11-d22 d12-d21 d12-d22", "bridged or bridged 1000": "d11-d12 d21-d22"},
        groups={1000: "239.1.1.100"},
        segments={
            "torm11 bond1": f"{_ESI}1 torm12",
            "torm11 bond2": f"{_ESI}2 torm12",
            "torm12 bond1": f"{_ESI}1 torm11",
            "torm12 bond2": f"{_ESI}2 torm11",
            "torm21 bond3": f"{_ESI}3 torm22",
            "torm21 bond4": f"{_ESI}4 torm22",
            "torm22 bond3": f"{_ESI}3 torm21",
            "torm22 bond4": f"{_ESI}4 torm21",
        },
    ),
    "bgp_evpn_rt5/test_bgp_evpn": Wanted(
        floods={1001: "leaf1", 1002: "leaf2"},
        routers={101: ALL},
        ways={"routed 101": "h1-h2"},
        routes={
            "leaf1 vrf-101 10.0.2.0/24": "leaf2",
            "leaf1 vrf-101 fd01:2::/64": "leaf2",
            "leaf2 vrf-101 10.0.1.0/24": "leaf1",
            "leaf2 vrf-101 fd01:1::/64": "leaf1",
        },
        lines={
            "leaf1": (
                "vrf vrf-101\nvni 101",
                f"rd 10.253.0.1:10101\n{_BOTH}\nadvertise ipv4 unicast\nadvertise ipv6 unicast",
            ),
            "leaf2": (f"rd 10.253.0.2:10101\n{_BOTH}",),
        },
    ),
    "bgp_evpn_rt5/test_bgp_evpn_rt5_dvni": Wanted(
        floods={1001: "leaf1", 1002: "leaf2"},
        routers={101: ALL, 102: ALL},
        ways={"routed 102 and routed 101": "h1-h2"},
        routes={
            "leaf1 vrf-101 10.0.102.0/24": "leaf2",
            "leaf1 vrf-102 10.0.102.0/24": "leaf2",
            "leaf1 vrf-102 10.0.101.0/24": "vrf-101",
            "leaf2 vrf-101 10.0.101.0/24": "leaf1",
            "leaf2 vrf-102 10.0.101.0/24": "leaf1",
            "leaf2 vrf-101 10.0.102.0/24": "vrf-102",
        },
        lines={"leaf1": ("import vrf vrf-101", "import vrf vrf-102")},
    ),
    "bgp_evpn_overlay_index_gateway/test_bgp_evpn_overlay_index_gateway": Wanted(
        floods={100: "pe1 pe2"},
        routers={1000: "pe1 pe2"},
        ways={"bridged 100": "host1-host2"},
        routes={
            "pe1 vrf-blue 10.100.0.21/32": "10.50.1.2",
            "pe1 vrf-blue fd00:100::21/128": "host1",
            "pe2 vrf-blue 10.100.0.21/32": "pe1",
            "pe2 vrf-blue fd00:100::21/128": "pe1",
        },
        gateways={"10.50.1.1/24 fd00:50:1::1/64": "pe1 pe2"},
    ),
    "bgp_evpn_vxlan_topo1/test_bgp_evpn_vxlan": Wanted(
        floods={101: _PES, 102: _PES},
        ways={"bridged 101": "h1-h2 h1-h3 h2-h3", "bridged 102": "h4-h5 h4-h6 h5-h6"},
        lines={"p1": ("\n".join(REFLECTS), "router ospf")},
    ),
    "bgp_evpn_vxlan_topo1/test_bgp_evpn_irb_sym": Wanted(
        floods={101: _PES, 102: _PES},
        routers={300: _PES},
        ways={
            "bridged 101": "h1-h2 h1-h3 h2-h3",
            "bridged 102": "h4-h5 h4-h6 h5-h6",
            "routed": "h1-h4 h2-h5 h3-h6",
            "routed 300": "h1-h5 h1-h6 h2-h4 h2-h6 h3-h4 h3-h5",
        },
        gateways={"192.168.101.1/24": _PES, "192.168.102.1/24": _PES},
        lines={"pe1": ("vrf vrf-red\nvni 300",)},
    ),
    "bgp_evpn_vxlan_svd_topo1/test_bgp_evpn_vxlan_svd": Wanted(
        floods={101: "pe1 pe2", 1011: "pe1", 1012: "pe2", 1021: "pe1", 1022: "pe2"},
        routers={100: "pe1 pe2", 4000: "pe1 pe2"},
        ways={"bridged 101": "host1-host2", "routed 100": "blue1-blue2", "routed 4000": "purple1-purple2"},
        routes={
            "pe1 vrf-blue 10.27.2.0/30": "pe2",
            "pe2 vrf-blue 10.27.1.0/30": "pe1",
            "pe1 vrf-purple 10.27.3.0/30": "pe2",
            "pe2 vrf-purple 10.27.1.0/30": "pe1",
        },
    ),
    "bgp_evpn_three_tier_clos_topo1/test_bgp_evpn_v4_v6_vtep": Wanted(
        floods={1000111: _ALL4, 1011: "bordertor11", 1012: "bordertor12"},
        routers={104002: _ALL4},
        ways={
            "bridged 1000111": "host111-host121 host111-host211 host111-host221 host121-host211 host121-host221 "
            "host211-host221",
            "routed": "ext1-host111 ext2-host121",
            "routed 104002": "ext1-ext2 ext1-host121 ext1-host211 ext1-host221 ext2-host111 ext2-host211 "
            "ext2-host221",
        },
        routes={
            "bordertor11 vrf2 198.51.102.0/24": "192.0.2.6",
            "bordertor11 vrf2 2001:db8:81:3::/64": "ext1",
            "bordertor12 vrf2 198.51.102.0/24": "192.0.2.14",
            "bordertor12 vrf2 2001:db8:81:3::/64": "ext2",
        }
        | {
            f"{leaf} vrf2 {prefix}": border
            for border, prefixes in _EXITS.items()
            for leaf in _ALL4.split()
            for prefix in prefixes
            if leaf not in border.split()
        },
        gateways={"192.168.11.1/24 fd00:60:1:1::1/64": _ALL4},
    ),
    "bgp_evpn_route_map_match/test_bgp_evpn_route_map_match": Wanted(
        floods={10: ALL},
        ways={"bridged 10": "c1-c2"},
        lines={
            "leaf1": (
                "route-map rt5 deny 20\nmatch evpn route-type prefix\nexit",
                "router bgp 4200100001\naddress-family l2vpn evpn\nneighbor FABRIC route-map rt5 out",
            )
        },
    ),
    "evpn_pim_1/test_evpn_pim_topo1": Wanted(
        floods={42: ALL},
        ways={"bridged 42": "host1-host2"},
        groups={42: "239.1.1.1"},
        lines={"leaf1": ("ip pim rp 10.254.0.1 239.1.1.1/32",), "spine": ("ip pim rp 10.254.0.1 239.1.1.1/32",)},
    ),
    "evpn_type5_test_topo1/test_evpn_type5_topo1": Wanted(
        floods={1001: "e1", 1002: "e1", 1003: "d1", 1004: "d2", 1005: "d2"},
        routers={75100: "e1 d1 d2", 75200: "e1 d2"},
        ways={"routed 75100": "r1-r3 r1-r5 r3-r5", "routed 75200": "r2-r4"},
        routes={
            "e1 red 10.1.1.1/32": "10.8.1.2",
            "e1 red fd00:10::1/128": "r1",
            "e1 red 10.40.1.1/32": "d1 d2",
            "e1 red 10.8.3.0/30": "d1",
            "e1 red fd00:8:3::/64": "d1",
            "d1 red 10.40.1.1/32": "10.8.3.2",
            "d1 red 10.1.1.1/32": "e1",
            "d1 red fd00:10::1/128": "e1",
            "d1 red 10.8.1.0/30": "e1",
            "d1 red fd00:8:1::/64": "e1",
            "e1 red 10.8.5.0/30": "d2",
            "d1 red 10.8.5.0/30": "d2",
            "d2 red 10.40.1.1/32": "10.8.5.2",
            "d2 red 10.1.1.1/32": "e1",
            "d2 red fd00:10::1/128": "e1",
            "d2 red 10.8.1.0/30": "e1",
            "d2 red fd00:8:1::/64": "e1",
            "d2 red 10.8.3.0/30": "d1",
            "d2 red fd00:8:3::/64": "d1",
            "e1 blue 10.20.1.1/32": "10.8.2.2",
            "e1 blue 10.40.1.2/32": "d2",
            "e1 blue 10.8.4.0/30": "d2",
            "d2 blue 10.40.1.2/32": "10.8.4.2",
            "d2 blue 10.20.1.1/32": "e1",
            "d2 blue 10.8.2.0/30": "e1",
        },
        lines={"e1": ("rd 10.253.0.1:10050\nroute-target import 100:100\nroute-target export 100:100",)},
    ),
    "evpn_type5_test_topo1/test_evpn_type5_chaos_topo1": Wanted(
        floods={1001: "e1", 1002: "e1", 1003: "e1", 1011: "d1", 1012: "d1", 1013: "d1"},
        routers={75100: "e1 d1", 75200: "e1 d1", 75300: "e1 d1"},
        ways={"routed 75100": "r1-v1", "routed 75200": "r2-v2", "routed 75300": "r3-v3"},
        routes={
            f"{key} {tenant} {prefix}": by
            for number, tenant in enumerate(("red", "blue", "green"), start=1)
            for key, prefix, by in (
                ("e1", "100.1.1.1/32", f"10.8.{number}.2"),
                ("e1", f"10.9.{number}.0/30", "d1"),
                ("d1", "100.1.1.1/32", "e1"),
                ("d1", f"10.8.{number}.0/30", "e1"),
            )
        },
        lacks=("route-target", "rd "),
    ),
}

WANTED = {
    f"{folder}/{name}": wanted
    for folder, cases in (("netlab/evpn", NETLAB_EVPN), ("netlab/vxlan", NETLAB_VXLAN), ("frr", FRR))
    for name, wanted in cases.items()
}
"""By the case's name, which is that of its file."""

NO_WORD = (
    "netlab/evpn/52-mpls-asymmetric-irb",
    "netlab/evpn/53-evpn-l3only",
    "netlab/evpn/54-evpn-l3vpn",
    "netlab/vxlan/04-vxlan-irb-ospf",
    "netlab/vxlan/05-vxlan-router-stick",
    "netlab/vxlan/07-vxlan-bridging-v6only",
    "frr/bgp_evpn_maximum_prefix/test_bgp_evpn_maximum_prefix",
    "frr/bgp_evpn_rt5/test_bgp_evpn_rt5_recursive_nh",
    "frr/bgp_evpn_rt5/test_bgp_evpn_v6_vtep",
    "frr/bgp_evpn_rt5/test_bgp_evpn_vrf_underlay",
    "frr/bgp_evpn_vxlan_macvrf_soo_topo1/test_bgp_evpn_vxlan_macvrf_soo",
    "frr/bgp_evpn_vxlan_macvrf_soo_topo1/test_bgp_evpn_vxlan_macvrf_soo_v6_vtep",
    "frr/bgp_evpn_vxlan_svd_topo1/test_bgp_evpn_vxlan_svd_v6_vtep",
    "frr/bgp_evpn_vxlan_topo1/test_bgp_evpn_irb_asym",
    "frr/bgp_evpn_vxlan_topo1/test_bgp_evpn_vxlan_v6_vtep",
)
"""Cases without a file that could be refused, or with one that another has: the page says why."""
