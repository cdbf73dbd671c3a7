"""Questions by ARP on a bridge in a namespace: who answers, who does not, and that nothing is left behind."""

import os
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest

from lab.kernel.packets.arp import Question, ask
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from tests.fabric import snapshot

pytestmark = pytest.mark.fabric
ASKER, ONE, TWO, NOBODY = map(IPv4Address, ("10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"))
MACS = {name: f"02:00:00:00:00:0{number}" for number, name in enumerate("abcd", 1)}


@pytest.fixture
def spaces() -> Iterator[dict[str, Namespace]]:
    """On a bridge: one who asks, one who has an address for itself, and two who have the same."""
    names = {name: f"rv-{os.getpid()}-{name}" for name in ("bridge", *MACS)}
    netns.create(list(names.values()))
    try:
        found = {name: Namespace(whole) for name, whole in names.items()}
        bridge = found["bridge"]
        bridge.run(["ip", "link", "add", "br0", "up", "type", "bridge"])
        for name, address in zip(MACS, (ASKER, ONE, TWO, TWO), strict=True):
            bridge.run(["ip", "link", "add", "name", name, "up", "master", "br0", "type", "veth", "peer", "name",
                        "eth1", "address", MACS[name], "netns", names[name]])  # fmt: skip
            found[name].run(["ip", "address", "add", f"{address}/24", "dev", "eth1"])
            found[name].run(["ip", "link", "set", "eth1", "up"])
        yield found
    finally:
        netns.delete(list(names.values()))


def test_who_has_an_address_answers_and_all_who_have_it(spaces: dict[str, Namespace]) -> None:
    before = snapshot.take()
    answers = ask([Question(spaces["a"], "eth1", ASKER, target) for target in (ONE, TWO, NOBODY)])
    assert answers == [{MACS["b"]}, {MACS["c"], MACS["d"]}, set()]
    assert before.differences(snapshot.take()) == []


def test_each_is_asked_where_the_question_says(spaces: dict[str, Namespace]) -> None:
    """At the same time from several nodes, and none receives the answers to another."""
    answers = ask([Question(spaces[name], "eth1", source, ASKER) for name, source in (("b", ONE), ("c", TWO))])
    assert answers == [{MACS["a"]}, {MACS["a"]}]


def test_a_port_in_a_bridge_receives_its_answers(spaces: dict[str, Namespace]) -> None:
    """As one that ovs or another program takes frames from does, too."""
    for words in (["add", "br1", "up", "type", "bridge"], ["set", "eth1", "master", "br1"]):
        spaces["a"].run(["ip", "link", *words])
    assert ask([Question(spaces["a"], "eth1", ASKER, ONE)]) == [{MACS["b"]}]


def test_a_link_that_is_down_is_answered_by_nobody(spaces: dict[str, Namespace]) -> None:
    spaces["a"].run(["ip", "link", "set", "eth1", "down"])
    assert ask([Question(spaces["a"], "eth1", ASKER, ONE)]) == [set()]


def test_an_interface_that_is_gone_is_an_error(spaces: dict[str, Namespace]) -> None:
    with pytest.raises(OSError, match="No such device"):
        ask([Question(spaces["a"], "eth7", ASKER, ONE)])
