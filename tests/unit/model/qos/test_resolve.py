"""Which profile wins where, and what its values mean."""

from dataclasses import replace
from fractions import Fraction

import pytest

from lab.errors import InvalidInput
from lab.model.load import load_topology
from lab.model.qos.advice import advise
from lab.model.qos.change import apply_preset
from lab.model.qos.headroom import HOST_REACTION, VIRTUAL_REACTION, headroom_needed
from lab.model.qos.port import StormAction, Trust, WatchdogQos, members
from lab.model.qos.presets import PRESETS
from lab.model.qos.resolve import resolve
from lab.model.spec import json_schema
from lab.model.store import dump, restore
from lab.model.topology import Role, Topology
from tests.unit.model.qos.fabrics import SHAPE, fabric, node, port, profile

EVERYTHING = """
  fabric: [sonic, all]
  roles: {spine: pfc-ecn}
  nodes: {leaf2: all}
  interfaces: {"h1:eth1": nvidia}
  profiles:
   all:
    map: {trust: pcp, dscp: {4: 5}, pcp: {1: 2}, queue: {3: 2}, group: {7: 6}}
    buffer:
      pool: 20MB
      groups: {3: {alpha: 1/8, reserved: 1ms, headroom: 3MB}, 4: {xoff: 0.1s}}
      queues: {2: 4KB}
    pfc: {priorities: [3, 4], tx: false, rx: true, quanta: 44, watchdog: {action: forward, detection: 0.4s}}
    ecn: {2: {kmin: 10KB, kmax: 20ms, pmax: 5%}}
    scheduler: {1: strict, 2: 7}
"""


def test_a_fabric_without_qos_has_none() -> None:
    plain = load_topology(f"name: t\n{SHAPE}")
    assert plain.qos is None
    assert resolve(plain) == {}


def test_every_port_has_its_links_figures() -> None:
    topology = fabric("pfc-ecn", extra="overrides: {leaf2--spine1: {rate: 20Mbit, mtu: 1500, delay: 1ms}}")
    ports = {f"{name}:{end}": qos for name, node in resolve(topology).items() for end, qos in node.ports.items()}
    assert set(ports) == {str(end) for link in topology.links for end in link.ends}
    slow = ports["spine1:swp2"]
    assert (slow.rate, slow.mtu, slow.delay) == (20_000_000, 1500, 0.001)
    needed = headroom_needed(20_000_000, 1500, 0.001, HOST_REACTION)
    assert slow.groups[3].headroom == needed < ports["leaf1:swp1"].groups[3].headroom


def test_only_headroom_and_pool_depend_on_how_soon_ports_pause() -> None:
    """Thresholds of a machine in virtual time are those of one in the host's; its headroom is a switch's."""
    slow, quick = (resolve(fabric("pfc-ecn"), reaction)["leaf1"] for reaction in (HOST_REACTION, VIRTUAL_REACTION))
    for name, later in slow.ports.items():
        sooner = quick.ports[name]
        saved = later.rate * (HOST_REACTION - VIRTUAL_REACTION) / 8
        assert later.groups[3].headroom - sooner.groups[3].headroom == pytest.approx(saved, abs=1)
        bare = [tuple(replace(group, headroom=0) for group in each.groups) for each in (later, sooner)]
        assert replace(sooner, groups=bare[1], reaction=HOST_REACTION) == replace(later, groups=bare[0])
    assert quick.shared == slow.shared
    assert quick.pool < slow.pool


def test_a_file_that_only_fits_where_ports_pause_soon() -> None:
    """Four ports of 100 Mb/s keep 4 x 250 KB for 20 ms, which is more than the pool."""
    small = "{fabric: [pfc-ecn, small], profiles: {small: {buffer: {pool: 900KB}}}}"
    with pytest.raises(InvalidInput, match="a pool of 900 KB is used up"):
        fabric(small)
    assert fabric(small, reaction=VIRTUAL_REACTION).qos is not None


def test_advice_and_a_preset_that_comes_later_allow_for_the_same() -> None:
    said = "{fabric: [pfc-ecn, tight], profiles: {tight: {buffer: {groups: {3: {headroom: 30KB}}}}}}"
    assert any("headroom" in advice.message for advice in advise(fabric(said)))
    assert advise(fabric(said, reaction=VIRTUAL_REACTION), VIRTUAL_REACTION) == ()
    node = resolve(fabric("pfc-ecn"), VIRTUAL_REACTION)["leaf1"]
    assert apply_preset(node, Role.LEAF, node.ports, PRESETS["pfc-ecn"]) == node


def test_the_most_specific_wins_field_by_field() -> None:
    qos = """{fabric: f, roles: {leaf: r}, nodes: {leaf1: n}, interfaces: {"leaf1:swp3": i}, profiles: {
        f: {ecn: {3: {kmin: 1KB, kmax: 90KB, pmax: 1%}}, scheduler: {0: 10, 3: 10}},
        r: {ecn: {3: {kmin: 2KB, pmax: 2%}}}, n: {ecn: {3: {kmin: 3KB}}},
        i: {ecn: {3: {kmin: 4KB}}, scheduler: {3: 9}}}}"""
    kmin = {end: port(qos, end).queues[3].ecn.kmin for end in ("h1:eth1", "leaf2:swp1", "leaf1:swp1", "leaf1:swp3")}
    assert kmin == {"h1:eth1": 1000, "leaf2:swp1": 2000, "leaf1:swp1": 3000, "leaf1:swp3": 4000}
    special = port(qos)
    assert (special.queues[3].ecn.kmax, special.queues[3].ecn.pmax) == (90_000, 0.02)
    assert (special.queues[0].weight, special.queues[3].weight) == (10, 9)


def test_a_preset_starts_afresh() -> None:
    mine = "profiles: {mine: {ecn: {3: {kmin: 3KB}}}}"
    assert port(f"{{fabric: [mine, nvidia], {mine}}}") == PRESETS["nvidia"].port(10**8, 9000, 0.0)
    assert port(f"{{fabric: [nvidia, mine], {mine}}}").queues[3].ecn.kmin == 3000
    assert port("{roles: {leaf: hpcc-thresholds}}").groups[3].alpha == Fraction(1, 8)
    assert port("{roles: {leaf: hpcc-thresholds}}", "spine1:swp1").groups[3].alpha == 1


def test_a_time_is_what_the_link_carries() -> None:
    text = profile("{ecn: {3: {kmin: 2ms, kmax: 8ms}}, buffer: {groups: {3: {xoff: 16ms, headroom: 10ms}}}}")
    for rate, factor in (("20Mbit", 1), ("100Mbit", 5), ("1Gbit", 50)):
        found = port(text, rate=rate)
        assert (found.queues[3].ecn.kmin, found.queues[3].ecn.kmax) == (5000 * factor, 20_000 * factor)
        assert (found.groups[3].xoff, found.groups[3].headroom) == (40_000 * factor, 25_000 * factor)


def test_alpha_and_xoff_take_each_others_place() -> None:
    static = port(profile("{buffer: {groups: {3: {xoff: 60KB}}}}")).groups[3]
    assert (static.alpha, static.xoff, static.xon) == (None, 60_000, 30_000)
    first, then = "a: {buffer: {groups: {3: {xoff: 60KB}}}}", "b: {buffer: {groups: {3: {alpha: 2}}}}"
    moving = port(f"{{fabric: [a, b], profiles: {{{first}, {then}}}}}").groups[3]
    assert (moving.alpha, moving.xoff) == (Fraction(2), None)


@pytest.mark.parametrize("alpha", json_schema()["$defs"]["GroupSpec"]["properties"]["alpha"]["anyOf"][0]["enum"])
def test_every_alpha_of_the_schema_is_taken(alpha: str | float) -> None:
    assert port(profile(f"{{buffer: {{groups: {{3: {{alpha: {alpha}}}}}}}}}")).groups[3].alpha == Fraction(alpha)


def test_an_xon_that_is_written_stays() -> None:
    assert port(profile("{buffer: {groups: {3: {xoff: 400KB, xon: 300KB}}}}")).groups[3].xon == 300_000
    assert port(profile("{buffer: {groups: {3: {xoff: 400KB}}}}")).groups[3].xon == 100_000, "the preset's, as before"


def test_naming_a_threshold_enables_and_enabled_says_otherwise() -> None:
    assert [queue.ecn.enabled for queue in port("pfc-ecn").queues] == [False] * 3 + [True] + [False] * 4
    assert port(profile("{ecn: {0: {kmin: 3KB}}}")).queues[0].ecn.enabled
    off = port(profile("{ecn: {3: {enabled: false, kmin: 3KB}}}")).queues[3].ecn
    assert (off.enabled, off.kmin) == (False, 3000)
    assert not port("pfc-ecn").pfc.watchdog.enabled
    assert port(profile("{pfc: {watchdog: {detection: 300ms}}}")).pfc.watchdog == WatchdogQos(
        True, 0.3, 0.2, StormAction.DROP
    )
    assert not port(profile("{pfc: {watchdog: {enabled: false, action: forward}}}")).pfc.watchdog.enabled


def test_maps_change_entry_by_entry() -> None:
    found = port(profile("{map: {trust: pcp, dscp: {26: 0, 10: 3}, pcp: {0: 1}, queue: {3: 5}, group: {7: 6}}}"))
    assert found.trust is Trust.PCP
    assert {dscp: priority for dscp, priority in enumerate(found.dscp_to_priority) if priority} == {10: 3, 48: 6}
    assert found.pcp_to_priority == (1, 1, 2, 3, 4, 5, 6, 7)
    assert found.priority_to_queue == (0, 1, 2, 5, 4, 5, 6, 7)
    assert found.priority_to_group == (0, 1, 2, 3, 4, 5, 6, 6)


def test_pfc_can_be_one_sided_and_have_no_priorities() -> None:
    deaf = port('{interfaces: {"h1:eth1": deaf}, profiles: {deaf: {pfc: {rx: false, quanta: 100}}}}', "h1:eth1").pfc
    assert (deaf.tx_priorities, deaf.rx_priorities, deaf.quanta) == (8, 0, 100)
    assert members(port(profile("{pfc: {priorities: [3, 4]}}")).pfc.priorities) == (3, 4)
    assert port(profile("{pfc: {priorities: []}}")).lossless_groups == 0


def test_hosts_mark_only_where_a_profile_says_so_of_hosts() -> None:
    """No NIC marks what it sends itself: marks show where the network is congested."""
    marking = "{ecn: {3: {kmin: 3KB}}}"

    def marks(qos: str, end: str) -> bool:
        node, _, interface = end.partition(":")
        return resolve(fabric(qos))[node].ports[interface].queues[3].ecn.enabled

    for qos in (
        "lab",
        "dcqcn-thresholds",
        f"{{fabric: [pfc-ecn, p], profiles: {{p: {marking}}}}}",
        "{nodes: {h1: dcqcn-thresholds}}",
        "{}",
    ):
        assert (marks(qos, "leaf1:swp1"), marks(qos, "h1:eth1")) == (True, False), qos
    for place in ("roles: {host: p}", "nodes: {h1: p}", "interfaces: {'h1:eth1': p}"):
        assert marks(f"{{{place}, profiles: {{p: {marking}}}}}", "h1:eth1"), place


def test_only_hosts_drain() -> None:
    slow = "{fabric: [slow], profiles: {slow: {nic: {drain: 50Mbit}}}}"
    assert port(slow, "h1:eth1").drain == 50_000_000
    assert port(slow, "leaf1:swp3").drain is None
    again = (
        "{fabric: slow, nodes: {h2: fast}, profiles: {slow: {nic: {drain: 5Mbit}}, fast: {nic: {drain: unlimited}}}}"
    )
    assert port(again, "h2:eth1").drain is None


def test_a_pool_is_what_is_said_or_what_is_needed() -> None:
    leaf = node("pfc-ecn")
    assert leaf.shared == 400_000, "32 ms at 100 Mb/s"
    assert leaf.pool == leaf.shared + sum(port.committed for port in leaf.ports.values())
    said = node(
        "{roles: {leaf: big}, nodes: {leaf1: bigger}, profiles: "
        "{big: {buffer: {pool: 5MB}}, bigger: {buffer: {pool: 6MB}}}}"
    )
    assert said.pool == 6_000_000
    assert said.shared == 6_000_000 - sum(port.committed for port in said.ports.values())


def test_a_mixed_node_shares_what_its_fastest_port_needs() -> None:
    mixed = node("pfc-ecn", extra="overrides: {leaf1--spine1: {rate: 400Mbit}}")
    assert mixed.shared == 1_600_000


def test_the_stored_form_is_exact() -> None:
    topology = fabric(EVERYTHING)
    assert restore(dump(topology)) == topology
    assert resolve(restore(dump(topology))) == resolve(topology)


@pytest.mark.parametrize("damage", ['"trust":"pcp"', '"action":"forward"', '"fabric":["sonic","all"]'])
def test_damage_of_the_stored_form_is_told(damage: str) -> None:
    text = dump(fabric(EVERYTHING))
    assert damage in text
    with pytest.raises(Exception, match="is damaged"):
        restore(text.replace(damage, damage.split(":", maxsplit=1)[0] + ":7"))


def test_the_shipped_incasts_are_lossless(shipped: Topology) -> None:
    assert (shipped.qos is not None) == (
        shipped.name
        in {"dcqcn", "flood", "four-spines", "rails", "incast", "one-leaf", "one-spine", "roce-tenant", "sonic-dut"}
    )
    assert all(node_qos.shared > 0 for node_qos in resolve(shipped).values())
