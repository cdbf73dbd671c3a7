"""The names of nodes: every address once, and every name to where it is."""

from ipaddress import ip_address

from lab.model.addressing import plan_addresses
from lab.model.hosts import hosts_file
from lab.model.load import load_topology

SHAPES = (
    "{shape: leaf-spine, spines: 2, leaves: 2}",
    "{shape: rail-optimised, rails: 2, hosts_per_unit: 2, spines: 1}",
)


def parsed(text: str) -> dict[str, list[str]]:
    """Addresses by name, as hosts(5) is read."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.split()
        ip_address(address)
        for name in names:
            found.setdefault(name, []).append(address)
    return found


def test_hosts_and_switches_are_called_by_their_names() -> None:
    known = parsed(hosts_file(plan_addresses(load_topology(f"name: t\ngenerate: {SHAPES[0]}\n"))))
    assert known["h1"] == known["h1-eth1"] == ["10.0.0.1"]
    assert known["leaf1-swp3"] == ["10.0.0.0"]
    assert known["leaf2"] == ["10.253.0.2", "fdc0:0:0:1::2"]
    assert known["localhost"] == ["127.0.0.1", "::1"]


def test_a_host_with_several_nics_is_called_by_the_first() -> None:
    known = parsed(hosts_file(plan_addresses(load_topology(f"name: t\ngenerate: {SHAPES[1]}\n"))))
    assert known["h1"] == known["h1-eth1"] != known["h1-eth2"]
    leaves = {name: addresses for name, addresses in known.items() if name.startswith("leaf") and "-" not in name}
    assert len({address for addresses in leaves.values() for address in addresses}) == 2 * len(leaves)
