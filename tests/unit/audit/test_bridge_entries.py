"""Static entries of a bridge, by where the host with the MAC is cabled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.audit.objects.kernel_objects import AddressAudit, FdbAudit
from tests.unit.audit.made_fabric import STATE, changed

H1, H2, H3 = (STATE.nodes[name].interfaces[0].mac for name in ("h1", "h2", "h3"))
"""h1 and h2 are cabled to swp3 and swp4 of leaf1, h3 to swp3 of leaf2."""
VTEPS = {f"leaf{number}": f"10.0.0.{number}" for number in range(1, 5)}
NODES = {
    **STATE.nodes,
    **{
        name: replace(node, addresses=(*node.addresses, AddressAudit("vtep", f"{VTEPS[name]}/32", "global")))
        for name, node in STATE.nodes.items()
        if name in VTEPS
    },
}


def wrong(mac: str, interface: str, remote: str = "", *, permanent: bool = True, flags: tuple[str, ...] = ()) -> bool:
    """Whether one entry of leaf1 is reported, and nothing else."""
    entry = FdbAudit(mac, interface, "10" if not remote else "", remote, "", permanent, flags)
    found = changed("leaf1", lambda node: replace(node, fdb=(entry,)), NODES)
    expected = [("leaf1", f"fdb {entry.identity.removeprefix('fdb ')}", "presence", "present", "absent")]
    assert found in ([], expected)
    return bool(found)


@pytest.mark.parametrize(
    ("mac", "interface", "remote"),
    [
        (H1, "swp4", ""),  # the port of another host
        (H3, "swp4", ""),  # ... although it is behind another leaf
        (H1, "swp1", ""),  # an uplink
        (H1, "vni10", VTEPS["leaf2"]),  # a tunnel, although it is here
        (H3, "vni10", VTEPS["leaf3"]),  # the tunnel to another leaf
    ],
)
def test_an_entry_that_leads_elsewhere_is_reported(mac: str, interface: str, remote: str) -> None:
    assert wrong(mac, interface, remote)


@pytest.mark.parametrize(
    ("mac", "interface", "remote"),
    [
        (H1, "swp3", ""),
        (H3, "swp1", ""),  # by an uplink to another leaf
        (H3, "vni10", VTEPS["leaf2"]),
        (H3, "vni10", "192.0.2.1"),  # of no node here
        (H1, "bond7", ""),  # of ports that are not known
        ("02:00:00:99:99:99", "swp4", ""),  # of a machine that is not known
    ],
)
def test_an_entry_that_may_lead_there_is_not(mac: str, interface: str, remote: str) -> None:
    assert not wrong(mac, interface, remote)


def test_a_learned_entry_is_not() -> None:
    """It is a consequence: the bridge saw such frames, or EVPN said so."""
    assert not wrong(H1, "swp4", permanent=False)
    assert not wrong(H1, "vni10", VTEPS["leaf2"], permanent=False, flags=("extern_learn",))


def test_one_of_evpn_that_has_been_replaced_is() -> None:
    """The kernel keeps its flag: ``bridge fdb replace`` only changes the port."""
    assert wrong(H3, "swp4", permanent=False, flags=("extern_learn",))


def test_a_mac_that_two_hosts_have_may_be_at_both() -> None:
    """That they share it is reported by itself."""
    both = replace(
        STATE.nodes["h2"], interfaces=tuple(replace(each, mac=H1) for each in STATE.nodes["h2"].interfaces)
    )
    entry = FdbAudit(H1, "swp4", "10", "", "", True, ())
    found = changed("leaf1", lambda node: replace(node, fdb=(entry,)), {**NODES, "h2": both})
    assert not [each for each in found if each[1].startswith("fdb")]
