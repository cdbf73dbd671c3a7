"""Warnings: each rule has a fabric that keeps it, in test_presets, and here one that breaks it."""

import pytest

from lab.backends import lifecycle
from lab.model.load import load_topology
from lab.model.qos.advice import advise
from lab.model.qos.capacity import rate_advice
from tests.unit.model.qos.fabrics import fabric, profile


def lines(qos: str) -> list[str]:
    return [str(advice) for advice in advise(fabric(qos))]


@pytest.mark.parametrize(
    ("qos", "field", "reason"),
    [
        ("{ecn: {3: {kmax: 250KB}}}", "ecn.3.kmax", "kmax 250 KB is not below 218 KB, where a lone group 3 pauses"),
        ("{ecn: {3: {kmin: 250KB, kmax: 300KB}}}", "ecn.3.kmin", "nothing is marked before PFC stops the senders"),
        ("{buffer: {groups: {3: {xoff: 160KB}}}}", "ecn.3.kmax", "kmax 160 KB is not below 160 KB"),
        ("{buffer: {groups: {3: {headroom: 100KB}}}}", "buffer.groups.3.headroom", "less than the 268.2 KB"),
        ("{map: {queue: {5: 3}}}", "map.queue.5", "lossy priority 5 shares queue 3 with lossless priority 3"),
        ("{pfc: {rx: false}}", "pfc", "does not obey the pauses that this end sends"),
    ],
)
def test_what_is_unwise_is_told_with_its_reason(qos: str, field: str, reason: str) -> None:
    found = advise(fabric(profile(qos)))
    assert found
    assert {advice.field for advice in found} == {field}
    assert reason in str(found[0])
    assert all(advice.remedy for advice in found)


@pytest.mark.parametrize(
    "qos",
    [
        "{ecn: {3: {enabled: false, kmax: 250KB}}}",
        "{ecn: {3: {kmax: 250KB}}, pfc: {tx: false}}",
        "{buffer: {groups: {4: {headroom: 1KB}}}}",
        "{map: {queue: {5: 4}}}",
        "{pfc: {priorities: []}, ecn: {3: {kmax: 250KB}}}",
        "{pfc: {tx: false, rx: false}}",
    ],
)
def test_what_can_do_no_harm_is_not_told(qos: str) -> None:
    assert lines(profile(qos)) == []


def test_ports_that_say_the_same_are_told_together() -> None:
    qos = "{roles: {leaf: mine}, profiles: {mine: {map: {queue: {5: 3}}}}}"
    (line,) = lines(qos)
    assert line.startswith(
        "leaf1:swp1 leaf1:swp2 leaf1:swp3 and 5 more: map.queue.5: lossy priority 5 shares queue 3 "
    )
    assert line.endswith("; map them to different queues: a pause of one stops both")


def test_one_deaf_host_is_told_at_its_leaf() -> None:
    qos = '{interfaces: {"h2:eth1": deaf}, profiles: {deaf: {pfc: {rx: false}}}}'
    assert [advice.ports for advice in advise(fabric(qos))] == [("leaf1:swp4",)]


def test_priorities_that_differ_across_a_link_are_one_sided_too() -> None:
    qos = "{roles: {host: more}, profiles: {more: {pfc: {priorities: [3, 4]}}}}"
    assert {advice.ports for advice in advise(fabric(qos)) if "h1:eth1" in advice.ports} == {("h1:eth1",)}


def test_hosts_without_rdma_devices_have_no_congestion_control_in_place_of_pfc() -> None:
    topology = fabric("lossy")
    assert lines("lossy") == []
    found = advise(lifecycle.without_rdma(topology))
    assert [(advice.ports, advice.field) for advice in found] == [
        (tuple(f"h{number}:eth1" for number in (1, 2, 3, 4)), "nic.cc")
    ]
    assert "limits QPs of RDMA devices only" in found[0].message


@pytest.mark.parametrize(
    "qos", ["lab", "pfc-ecn", "{fabric: lossy, profiles: {deaf: {nic: {cc: {rp: false}}}}, roles: {host: deaf}}", ""]
)
def test_with_pfc_or_without_a_reaction_point_devices_do_not_matter(qos: str) -> None:
    topology = fabric(qos)
    assert advise(lifecycle.without_rdma(topology)) == advise(topology)


@pytest.mark.parametrize(("priority", "fields"), [(3, set()), (0, {"ecn.0", "nic.cc"})])
def test_where_ports_trust_the_pcp_roce_has_the_priority_of_pcp_0(priority: int, fields: set[str]) -> None:
    mine = f"{{map: {{trust: pcp, pcp: {{0: {priority}, 3: 2}}}}}}"
    qos = f"{{fabric: [lab, mine], profiles: {{mine: {mine}}}}}"
    assert {advice.field for advice in advise(lifecycle.without_rdma(fabric(qos)))} == fields


def test_without_qos_there_is_nothing_to_say() -> None:
    assert lines("") == []


@pytest.mark.parametrize(
    ("link", "figure"),
    [("rate: 25Gbit", "640 Mb/s"), ("rate: 1Gbit, mtu: 4200", "640 Mb/s"), ("rate: 250Mbit, mtu: 1500", "200 Mb/s")],
)
def test_a_link_that_nothing_here_can_fill_is_told_with_the_figure(link: str, figure: str) -> None:
    text = (
        f"name: t\ndefaults: {{{link}}}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 2, host_rate: 100Mbit}}\n"
    )
    (advice,) = rate_advice(load_topology(f"{text}qos: pfc-ecn\n"))
    assert advice.field == "rate"
    assert f"is more than the {figure} that all links carry together" in advice.message
    assert advice.ports == ("leaf1:swp1", "leaf2:swp1")
    assert rate_advice(load_topology(text)) == ()


def test_one_fast_link_is_told_alone() -> None:
    slow = fabric("pfc-ecn", extra="overrides: {leaf2--spine1: {rate: 640Mbit}}")
    assert rate_advice(slow) == ()
    (advice,) = rate_advice(fabric("pfc-ecn", extra="overrides: {leaf2--spine1: {rate: 641Mbit}}"))
    assert advice.ports == ("leaf2:swp1",)
