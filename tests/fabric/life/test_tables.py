"""Routing tables of any number, as ip(8) reads them back."""

from __future__ import annotations

import json
import os
from ipaddress import ip_address, ip_interface
from typing import TYPE_CHECKING

import pytest

from lab.kernel.netlink import links
from lab.kernel.netlink.rtnl import NetlinkBatch
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from tests.inside import entered

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fabric

INDEX = 1000


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    space = Namespace(f"rt-{os.getpid()}-tables")
    netns.create([space.name])
    space.run(["ip", "link", "add", "near", "index", str(INDEX), "type", "veth", "peer", "name", "far"])
    for end in ("near", "far"):
        space.run(["ip", "link", "set", end, "up"])
    yield space
    netns.delete([space.name])


@pytest.mark.parametrize("table", [100, 255, 256, 5010, 2**32 - 1])
@pytest.mark.parametrize(("own", "gateway"), [("10.0.0.1/24", "10.0.0.2"), ("fd00::1/64", "fd00::2")])
def test_a_table_has_the_number_that_it_was_given(namespace: Namespace, table: int, own: str, gateway: str) -> None:
    with entered(namespace):
        batch = NetlinkBatch()
        links.add_address(batch, INDEX, ip_interface(own))
        links.add_default_route(batch, ip_address(gateway), INDEX, table=table)
        links.add_source_rule(batch, ip_interface(own).ip, table)
        batch.commit()
    family = f"-{ip_address(gateway).version}"
    (route,) = (
        route
        for route in json.loads(namespace.run(["ip", "-N", "-json", family, "route", "show", "table", "all"]).stdout)
        if route["dst"] == "default"
    )
    assert (route["gateway"], int(route["table"])) == (gateway, table)
    rules = json.loads(namespace.run(["ip", "-N", "-json", family, "rule", "show"]).stdout)
    assert [int(rule["table"]) for rule in rules if rule["src"] == str(ip_interface(own).ip)] == [table]
