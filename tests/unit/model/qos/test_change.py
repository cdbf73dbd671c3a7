"""Live changes: the same words as in a file, the same rules, and all or nothing."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.errors import InvalidInput, UsageError
from lab.model.qos.change import change, parse_assignments
from lab.model.qos.port import NodeQos
from lab.model.qos.profile import QosProfile
from lab.model.topology import Role
from tests.unit.model.qos.fabrics import node, profile

LEAF = node("pfc-ecn")


def changed(*assignments: str) -> NodeQos:
    return change(LEAF, Role.LEAF, ["swp3"], assignments)


@pytest.mark.parametrize(
    ("assignments", "same_as"),
    [
        (["ecn.3.kmin=20KB"], "{ecn: {3: {kmin: 20KB}}}"),
        (["ecn.3.kmin = 2ms", "ecn.3.kmax=8ms", "ecn.3.pmax=5%"], "{ecn: {3: {kmin: 2ms, kmax: 8ms, pmax: 0.05}}}"),
        (["ecn.3.enabled=false"], "{ecn: {3: {enabled: false}}}"),
        (
            ["buffer.groups.3.xoff=60KB", "buffer.queues.0=1MB"],
            "{buffer: {groups: {3: {xoff: 60KB}}, queues: {0: 1MB}}}",
        ),
        (["buffer.groups.3.alpha=1/4"], "{buffer: {groups: {3: {alpha: 0.25}}}}"),
        (["pfc.tx=false", "pfc.quanta=100"], "{pfc: {tx: false, quanta: 100}}"),
        (["pfc.priorities=3,4"], "{pfc: {priorities: [3, 4]}}"),
        (["pfc.priorities=[3, 4]"], "{pfc: {priorities: [3, 4]}}"),
        (["pfc.priorities="], "{pfc: {priorities: []}}"),
        (["pfc.watchdog.action=forward"], "{pfc: {watchdog: {action: forward}}}"),
        (["scheduler.0=strict", "scheduler.6=7"], "{scheduler: {0: strict, 6: 7}}"),
        (["map.dscp.26=0", "map.trust=pcp"], "{map: {dscp: {26: 0}, trust: pcp}}"),
        (["ecn.3.kmin=1KB", "ecn.3.kmin=2KB"], "{ecn: {3: {kmin: 2KB}}}"),
    ],
)
def test_an_assignment_means_what_it_means_in_a_file(assignments: list[str], same_as: str) -> None:
    after = changed(*assignments)
    assert after.ports["swp3"] == node(profile(same_as)).ports["swp3"]
    assert {name: port for name, port in after.ports.items() if name != "swp3"} == {
        name: port for name, port in LEAF.ports.items() if name != "swp3"
    }


def test_every_interface_that_is_named_is_changed() -> None:
    after = change(LEAF, Role.LEAF, ["swp1", "swp2"], ["scheduler.3=9"])
    assert [port.queues[3].weight for port in after.ports.values()] == [9, 9, 50, 50]


def test_the_pool_is_the_nodes() -> None:
    after = changed("buffer.pool=9MB")
    assert (after.pool, after.ports) == (9_000_000, LEAF.ports)


def test_hosts_can_be_made_slow() -> None:
    host = node("pfc-ecn", "h1")
    assert change(host, Role.HOST, ["eth1"], ["nic.drain=5Mbit"]).ports["eth1"].drain == 5_000_000
    with pytest.raises(InvalidInput, match=r"nic\.drain: is for hosts, not for a leaf"):
        changed("nic.drain=5Mbit")


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("ecn", "'ecn' is no assignment; write it like"),
        ("=3", "'=3' is no assignment"),
        ("ecn..kmin=3", "is no assignment"),
        ("enc.3.kmin=4KB", r"enc\.3\.kmin: there is no 'enc'; did you mean"),
        ("x=4KB", "x: there is no 'x'; choose map, buffer, pfc, ecn, scheduler, nic"),
        ("ecn.3.kmn=4KB", r"ecn\.3\.kmn: there is no 'kmn'; did you mean 'kmin'"),
        ("ecn.8.kmin=4KB", "there is no '8'; choose 0 to 7"),
        ("map.dscp.64=0", "there is no '64'; choose 0 to 63"),
        ("ecn.3=off", "is not one setting; choose one of its own: enabled, kmin, kmax, pmax"),
        ("ecn=4", "is not one setting; choose one of its own: 0 to 7"),
        ("ecn.3.kmin.x=4", r"ecn\.3\.kmin is a value; leave \.x out"),
        ("ecn.3.kmin=", "'' is no value"),
        ("ecn.3.kmin=~", "'~' is no value"),
        ("ecn.3.kmin=[[", r"'\[\[' is no value"),
        ("ecn.3.kmin=*a", "is no value"),
        ("ecn.3.kmin=lots", "ecn.3.kmin: 'lots' is neither a size nor a time"),
        ("scheduler.3=0", "scheduler.3: a weight of 0 is out of range"),
        ("pfc.priorities=3,9", r"pfc\.priorities\[1\]: 9 is too big"),
        ("ecn.3.kmin=2MB", r"ecn\.3\.kmin: kmin 2 MB is above kmax 160 KB"),
        ("buffer.pool=1KB", r"buffer\.pool: a pool of 1 KB is used up"),
        ("buffer.groups.3.xoff=9MB", r"buffer\.groups\.3\.xoff: xoff \+ headroom"),
        ("map.group.3=0", r"both are in group 0; map them to different groups"),
    ],
)
def test_what_is_wrong_is_named_with_the_choices(assignment: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        changed(assignment)
    assert all(problem.remedy for problem in caught.value.problems)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        changed("ecn.9.kmin=1KB", "scheduler.0=0", "pfc.quanta=70000", "nonsense")
    assert len(caught.value.problems) == 4


def test_an_interface_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="there is no interface 'swp9': the node has swp1, swp2, swp3, swp4"):
        change(LEAF, Role.LEAF, ["swp3", "swp9"], ["ecn.3.kmin=20KB"])


@given(st.lists(st.text(max_size=30), max_size=4))
@example(["ecn.3.kmin=\ud800"])
@example(["ecn.3.kmin=\x00"])
@example(["scheduler.²=3"])
@example(["buffer.groups.3.alpha=1/0"])
@example(["ecn.3.pmax=" + "9" * 400])
@example(["nic.drain=1e999"])
def test_any_text_is_an_assignment_or_told(assignments: list[str]) -> None:
    if not assignments:
        assert parse_assignments(assignments) == QosProfile()
        return
    with pytest.raises(InvalidInput) as caught:
        parse_assignments(assignments)
    assert all(str(problem).isprintable() for problem in caught.value.problems)
