"""Settings that differ, as tests make them."""

from __future__ import annotations

from lab.diagnose.differing import DifferingSetting


def setting(node: str, found: str, field: str = "presence", interface: str = "", **others: str) -> DifferingSetting:
    known = {"value": "present", "expected": "absent", "against": "siblings", **others}
    kind = others.pop("kind", "") or next(
        each for each in ("bgp session", "rdma device", found.partition(" ")[0]) if found.startswith(each)
    )
    return DifferingSetting(
        node=node, object=found, setting=field, value=known["value"], expected=known["expected"],
        against=known["against"], kind=kind, interface=interface,
    )  # fmt: skip


ROUTE = setting("leaf1", "route 10.0.0.8/32")
FILTER = setting("leaf1", "filter swp3 ingress 50 flower 1", interface="swp3")
FORWARDING = setting("leaf1", "sysctl net.ipv4.ip_forward", "value", value="0", expected="1")
SACK = setting("leaf1", "sysctl net.ipv4.tcp_sack", "value", value="0", expected="1")
NEIGHBOUR = setting("h1", "neighbour 10.0.0.0 eth1", "mac", "eth1", value="02:de", expected="02:1a")
