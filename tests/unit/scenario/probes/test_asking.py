"""ARP probes: leaves probe their hosts, hosts their gateways, and neighbours of one network each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.scenario.probes import arp_probe
from lab.scenario.probes.arp_probe import ask_around

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from lab.kernel.packets.arp import Question

SHAPE = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1%s}\n"
ROUTED = f"name: asked\nqos: pfc-ecn\n{SHAPE % ''}"
BRIDGED = f"""name: asked
{SHAPE % ", fabric_mtu: 9050"}overlay:
  tenants: {{blue: {{l3vni: 50010}}}}
  networks:
    web:
      {{vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.10.0/24], gateways: [10.1.10.1], untagged: [h1, h2]}}
"""
SIX = ROUTED + "routing: {host_family: ipv6}\n"


def asked(
    text: str,
    pairs: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    answers: tuple[str, ...] = (),
    ask: Callable[[Sequence[Question]], list[frozenset[str]]] | None = None,
) -> list[dict[str, Any]]:
    """What is noted of a topology of which each question is answered by these, or as ``ask`` does."""
    topology = load_topology(text)
    notes: list[dict[str, Any]] = []
    fabric = SimpleNamespace(topology=topology, plan=plan_addresses(topology), namespace=lambda node: f"rl-{node}")
    recorder = SimpleNamespace(note=lambda text, **data: notes.append({"text": text, **data}))

    def all_answer(questions: Sequence[Question]) -> list[frozenset[str]]:
        return [frozenset(answers) for _ in questions]

    monkeypatch.setattr(arp_probe, "ask", ask or all_answer)
    ask_around(SimpleNamespace(fabric=fabric, recorder=recorder), pairs)  # type: ignore[arg-type]
    return notes


def test_on_routed_links_each_end_asks_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has no other network than its link's, of which the leaf is the gateway."""
    notes = asked(ROUTED, ["h1:h2", "h2:h1"], monkeypatch, ("b", "a"))
    assert {(each["node"], each["port"], each["address"]) for each in notes} == {
        ("h1", "eth1", "10.0.0.0"), ("leaf1", "swp2", "10.0.0.1"),
        ("h2", "eth1", "10.0.0.2"), ("leaf2", "swp2", "10.0.0.3"),
    }  # fmt: skip
    assert all((each["text"], each["answers"]) == ("asked", ["a", "b"]) for each in notes)


def test_in_a_network_hosts_ask_for_the_gateway_and_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = asked(BRIDGED, ["h1:h2", "h2:h1"], monkeypatch)
    assert {(each["node"], each["address"]) for each in notes} == {
        ("h1", "10.1.10.1"), ("h2", "10.1.10.1"), ("h1", "10.1.10.3"), ("h2", "10.1.10.2"),
    }  # fmt: skip


def test_hosts_that_do_not_answer_are_probed_at_the_other_silent_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cables of h1 and h2 are swapped at leaf1, and h3 answers at its own port, so that no other port asks it."""
    at = {("swp2", "10.0.0.3"): "mac of h2", ("swp3", "10.0.0.1"): "mac of h1", ("swp4", "10.0.0.5"): "mac of h3"}
    text = ROUTED.replace("hosts_per_leaf: 1", "hosts_per_leaf: 3").replace("leaves: 2", "leaves: 1")
    questions: list[tuple[str, str]] = []

    def ask(of: Sequence[Question]) -> list[frozenset[str]]:
        pairs = [(each.interface, str(each.target)) for each in of]
        questions.extend(pairs)
        return [frozenset({at[pair]} if pair in at else ()) for pair in pairs]

    notes = asked(text, [], monkeypatch, ask=ask)
    found = {(each["port"], each["address"]): each["answers"] for each in notes if each["node"] == "leaf1"}
    assert found == {
        ("swp2", "10.0.0.1"): [], ("swp3", "10.0.0.3"): [], ("swp4", "10.0.0.5"): ["mac of h3"],
        ("swp2", "10.0.0.3"): ["mac of h2"], ("swp3", "10.0.0.1"): ["mac of h1"],
    }  # fmt: skip
    assert ("swp4", "10.0.0.1") not in questions


def test_there_is_no_arp_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(SIX, ["h1:h2"], monkeypatch) == []


def test_an_interface_that_is_gone_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_: Sequence[Question]) -> list[frozenset[str]]:
        raise OSError(19, "No such device")

    topology = load_topology(ROUTED)
    notes: list[str] = []
    fabric = SimpleNamespace(topology=topology, plan=plan_addresses(topology), namespace=lambda node: f"rl-{node}")
    monkeypatch.setattr(arp_probe, "ask", ask)
    recorder = SimpleNamespace(note=lambda text, **data: notes.append(f"{text}: {data['said']}"))
    ask_around(SimpleNamespace(fabric=fabric, recorder=recorder), [])  # type: ignore[arg-type]
    assert notes == ["gave up: no ARP: [Errno 19] No such device"]
