"""The addresses of a namespace, against those that iproute2 prints."""

from __future__ import annotations

import json
from ipaddress import ip_interface
from types import SimpleNamespace
from typing import Any

from lab.kernel.netlink.interfaces import addresses
from lab.kernel.process.process import find_tool, run


def test_addresses_are_those_of_iproute2() -> None:
    here: Any = SimpleNamespace(inside=lambda read: read())
    said = json.loads(run([find_tool("ip", "iproute2"), "-json", "address"]).stdout)
    known = {
        link["ifname"]: {ip_interface(f"{each['local']}/{each['prefixlen']}") for each in link["addr_info"]}
        for link in said
    }
    assert any(known.values())
    assert addresses(here) == known
