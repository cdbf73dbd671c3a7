"""An exported fabric without BGP: the same configuration, and the daemons that it needs."""

import pytest

from lab.export.node_files import Sort, files_of
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology

FABRIC = """
name: plain
generate: {{shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 1, rdma: false}}
routing: {{underlay: {}}}
"""


@pytest.mark.parametrize(
    ("underlay", "enabled"),
    [
        ("ebgp", {"zebra", "bgpd", "bfdd"}),
        ("ospf", {"zebra", "ospfd", "ospf6d", "bfdd"}),
        ("isis", {"zebra", "isisd", "bfdd"}),
    ],
)
def test_the_daemons_of_the_underlay_are_enabled(underlay: str, enabled: set[str]) -> None:
    topology = load_topology(FABRIC.format(underlay))
    files = files_of(topology, plan_addresses(topology), "leaf1", Sort())
    daemons, config = (files[name] for name in sorted(files) if name.endswith(("daemons", "frr.conf")))
    assert {line.partition("=")[0] for line in daemons.splitlines() if line.endswith("=yes")} - {
        "vtysh_enable"
    } == enabled
    assert ("router bgp" in config) == (underlay == "ebgp")
