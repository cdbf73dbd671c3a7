"""Requests of traffic control as the kernel took them: ``tc`` reads them back, and packets go where they should."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.kernel import bpf, clang, links, netns, tc
from lab.kernel.links import VethEnd
from lab.kernel.netns import Namespace
from lab.kernel.rtnl import Batch
from tests.inside import entered

pytestmark = pytest.mark.vm

SAMPLE = Path(__file__).parent / "bpf/sample.bpf.c"
VETH, IFB = 1001, 1002


@pytest.fixture
def spaces() -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces and a cable; the first has an ifb beside it, up."""
    here, there = (Namespace(f"rv-{os.getpid()}-{end}") for end in "ab")
    netns.create([here.name, there.name])
    opened = [os.open(space.path, os.O_RDONLY) for space in (here, there)]
    batch = Batch()
    ends = [VethEnd(descriptor, "eth1", VETH, f"02:00:00:00:00:0{n}", 1500) for n, descriptor in enumerate(opened, 1)]
    links.add_veth(batch, *ends)
    batch.commit()
    for descriptor in opened:
        os.close(descriptor)
    for space in (here, there):
        with entered(space):
            links.set_up(batch, VETH, "eth1")
            if space is here:
                links.add_ifb(batch, IFB, "drain1")
                links.set_up(batch, IFB, "drain1")
            batch.commit()
    yield here, there
    netns.delete([here.name, there.name])


def shown(space: Namespace, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(space.run(["tc", "-json", *words]).stdout)
    return found


def received(space: Namespace, interface: str) -> int:
    said = space.run(["ip", "-json", "-statistics", "link", "show", interface]).stdout
    return int(json.loads(said)[0]["stats64"]["rx"]["packets"])


def commit(space: Namespace, batch: Batch) -> None:
    with entered(space):
        batch.commit()


def test_a_root_is_replaced_and_deleted(spaces: tuple[Namespace, Namespace]) -> None:
    here, _ = spaces
    batch = Batch()
    tc.set_root(batch, VETH, "bfifo", 5)
    tc.set_root(batch, VETH, "bfifo", 5)
    tc.set_root(batch, VETH, "pfifo", 6)
    commit(here, batch)
    (qdisc,) = shown(here, "qdisc", "show", "dev", "eth1")
    assert (qdisc["kind"], qdisc["handle"], qdisc["root"]) == ("pfifo", "6:", True)
    tc.set_root(batch, VETH, "bfifo", 6)
    with pytest.raises(LabError, match="qdisc bfifo: "):
        commit(here, batch)
    batch = Batch()
    tc.delete_root(batch, VETH)
    commit(here, batch)
    assert [qdisc["kind"] for qdisc in shown(here, "qdisc", "show", "dev", "eth1")] == ["noqueue"]


def test_programs_sit_on_both_hooks_and_go_with_them(spaces: tuple[Namespace, Namespace]) -> None:
    here, _ = spaces
    batch = Batch()
    with bpf.Object.open(clang.compile_bpf(SAMPLE)) as sample:
        sample.load()
        tc.add_clsact(batch, VETH)
        tc.add_bpf_ingress(batch, VETH, sample.program("obey"), "obey_rx")
        tc.add_bpf_egress(batch, VETH, sample.program("obey"), "obey_tx")
        commit(here, batch)
    for hook, name in (("ingress", "obey_rx"), ("egress", "obey_tx")):
        (found,) = [entry for entry in shown(here, "filter", "show", "dev", "eth1", hook) if "options" in entry]
        assert (found["protocol"], found["pref"], found["kind"]) == ("all", 1, "bpf")
        assert (found["options"]["bpf_name"], found["options"]["direct-action"]) == (name, True)
    tc.delete_clsact(batch, VETH)
    commit(here, batch)
    assert [qdisc["kind"] for qdisc in shown(here, "qdisc", "show", "dev", "eth1")] == ["noqueue"]


def test_what_comes_in_leaves_by_the_ifb_and_comes_back(spaces: tuple[Namespace, Namespace]) -> None:
    here, there = spaces
    batch = Batch()
    tc.add_clsact(batch, VETH)
    tc.add_ingress_redirect(batch, VETH, IFB)
    tc.set_root(batch, IFB, "bfifo", 9)
    commit(here, batch)
    (found,) = [entry for entry in shown(here, "filter", "show", "dev", "eth1", "ingress") if "options" in entry]
    assert (found["protocol"], found["pref"], found["kind"]) == ("all", 2, "matchall")
    (action,) = found["options"]["actions"]
    assert (action["kind"], action["mirred_action"], action["direction"]) == ("mirred", "redirect", "egress")
    assert action["to_dev"] == "drain1"
    for space, address in ((here, "10.9.9.1/24"), (there, "10.9.9.2/24")):
        space.run(["ip", "addr", "add", address, "dev", "eth1"])
    before = received(here, "drain1")
    there.run(["ping", "-c3", "-i0.1", "-W5", "10.9.9.1"])
    assert received(here, "drain1") >= before + 3
