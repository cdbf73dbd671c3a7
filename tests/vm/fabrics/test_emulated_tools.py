"""ethtool, mlnx_qos, show_gids and SONiC's show in nodes have the values of ``rocelab counters``.

CI starts each of them once, which takes seconds without KVM; what they print of all counters is in tests/unit.

h1 ---- leaf ---- h2      h1 sends seven PFC frames, and RDMA goes from h1 to h2
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fabric.command import hosts, rocelab, rocelab_json

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    rocelab("up", hosts(tmp_path_factory.mktemp("emulated"), "shown", "h1", "h2", rdma=True))
    rocelab("craft", "pfc", "--classes", "3=0", "--count", "3", "--send", "h1:eth1")
    rocelab("craft", "pfc", "--classes", "3=9", "--count", "7", "--send", "h1:eth1")
    rocelab("rdma", "bw", "h1", "h2", "--iterations", "5", "--size", "16KiB")
    yield
    rocelab("down", "--fabric", "shown")


def counted(node: str, port: str) -> Any:
    said = rocelab_json("counters", "--all", f"{node}:{port}")
    return said["nodes"][node]["interfaces"][port]


def in_node(node: str, *words: str, expect: int = 0) -> str:
    return rocelab("exec", node, *words, expect=expect).stdout


def row(text: str, *begins: str) -> list[int]:
    (found,) = [line.split() for line in text.splitlines() if line.split()[: len(begins)] == list(begins)]
    return [int(cell.replace(",", "")) for cell in found[len(begins) :]]


def test_ethtool() -> None:
    said = in_node("leaf", "ethtool", "-S", "swp1")
    values = {name: int(value) for name, value in (line.split(": ") for line in said.splitlines()[1:])}
    values = {name.strip(): value for name, value in values.items()}
    assert values["rx_prio3_pause"] == 7
    ours = counted("leaf", "swp1")
    for name in ("rx_prio3_pause", "rx_prio3_bytes", "tx_prio3_packets"):
        assert values[name] == ours.get(name, 0)


@pytest.mark.long
def test_another_question_goes_to_the_real_ethtool() -> None:
    assert "driver: veth" in in_node("h1", "ethtool", "-i", "eth1")


def test_show() -> None:
    received = in_node("leaf", "show", "pfc", "counters").split("Port Tx")[0]
    assert row(received, "swp1")[3] == 7


@pytest.mark.long
def test_show_has_queues_and_priority_groups() -> None:
    ours = counted("leaf", "swp1")
    assert row(in_node("leaf", "show", "queue", "counters"), "swp1", "UC3")[0] == ours["queue3_packets"]
    peaks = row(in_node("leaf", "show", "queue", "watermark", "unicast"), "swp2")
    assert peaks[3] == counted("leaf", "swp2")["queue3_watermark_bytes"] > 0
    shared = row(in_node("leaf", "show", "priority-group", "watermark", "shared"), "swp1")
    assert shared[3] == ours["pg3_watermark_bytes"] > 0
    assert len(row(in_node("leaf", "show", "priority-group", "watermark", "headroom"), "swp1")) == 8


@pytest.mark.long
def test_mlnx_qos_changes_nothing() -> None:
    in_node("h1", "mlnx_qos", "-i", "eth1", "--pfc", "0,0,0,0,0,0,0,0", expect=1)


def test_mlnx_qos_and_gids() -> None:
    assert "Priority trust state: dscp" in in_node("h1", "mlnx_qos", "-i", "eth1")
    gids = in_node("h1", "show_gids")
    assert "shown.h1.eth1\t1\t" in gids
    assert "shown.h2" not in gids


def test_the_devices_own_counters_are_in_sys() -> None:
    folder = Path("/sys/class/infiniband/shown.h1.eth1/ports/1/hw_counters/sent_pkts")
    assert in_node("h1", "cat", str(folder)) == folder.read_text()
