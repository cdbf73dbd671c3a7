"""The output of the emulated tools: the formats of the real ones, with the values of rocelab's counters."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lab.cli import emulated
from lab.cli.emulated import __main__, nic_tools, switch_show
from lab.dataplane.counter_names import COUNTERS, CounterScope
from lab.errors import LabError
from lab.model.load import load_topology
from lab.model.qos.port import CLASSES
from lab.model.qos.resolve import resolve
from lab.rdma.sysfs import Gid
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

ALL = {
    counter.name_of(number): 1000 * place + number
    for place, counter in enumerate(COUNTERS)
    for number in range(1 if counter.scope is CounterScope.PORT else CLASSES)
}
PORTS = {"swp1": ALL, "swp2": dict.fromkeys(ALL, 0)}


def test_ethtool_has_mlx5s_names_and_our_values() -> None:
    lines = list(nic_tools.statistics(ALL))
    assert lines[0] == "NIC statistics (emulated):"
    said = {name.strip(): int(value) for name, value in (line.split(": ") for line in lines[1:])}
    for name in ("rx_prio3_pause", "tx_prio3_pause", "rx_prio3_pause_duration", "rx_prio3_bytes", "tx_prio7_packets"):
        assert said[name] == ALL[name]
    assert said["rx_prio3_marked"] == ALL["queue3_ecn_marked"]
    for name in ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"):
        assert said[name] == ALL[name]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("priority-group watermark shared", "pg{}_watermark_bytes"),
        ("priority-group watermark headroom", "pg{}_headroom_watermark_bytes"),
        ("queue watermark unicast", "queue{}_watermark_bytes"),
    ],
)
def test_watermarks_have_a_line_for_each_port(command: str, name: str) -> None:
    rows = [line.split() for line in switch_show.SHOW[command](PORTS)]
    assert ["swp1", *(str(ALL[name.format(number)]) for number in range(CLASSES))] in rows
    assert ["swp2", *["0"] * CLASSES] in rows


def test_pfc_counters_have_a_table_for_each_way() -> None:
    text = "\n".join(switch_show.SHOW["pfc counters"](PORTS)).replace(",", "")
    received, sent = text.split("Port Tx")
    assert "Port Rx" in received
    for part, way in ((received, "rx"), (sent, "tx")):
        (row,) = [line.split() for line in part.splitlines() if line.split()[:1] == ["swp1"]]
        assert row[1:] == [str(ALL[f"{way}_prio{number}_pause"]) for number in range(CLASSES)]


def test_queue_counters_add_up_drops_for_every_reason() -> None:
    text = "\n".join(switch_show.SHOW["queue counters"](PORTS)).replace(",", "")
    (row,) = [line.split() for line in text.splitlines() if line.split()[:2] == ["swp1", "UC3"]]
    drops = [
        sum(value for name, value in ALL.items() if name.startswith("queue3_drop_") and name.endswith(unit))
        for unit in ("packets", "bytes")
    ]
    assert row[2:] == [str(each) for each in (ALL["queue3_packets"], ALL["queue3_bytes"], *drops)]


def test_mlnx_qos_shows_trust_pfc_and_scheduling() -> None:
    topology = load_topology("name: q\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1}\n")
    node = resolve(topology)["h1"]
    lines = list(nic_tools.qos_settings(node, node.ports["eth1"]))
    assert lines[1] == "Priority trust state: dscp"
    (enabled,) = [line for line in lines if line.startswith("\tenabled")]
    assert enabled.split()[1:] == ["0", "0", "0", "1", "0", "0", "0", "0"]
    mapped = [line for line in lines if line.startswith("\tprio:3 ")]
    assert "26," in mapped[0]
    assert sum(line.count(",") for line in lines if line.startswith("\tprio:")) == 64
    assert len([line for line in lines if line.startswith("tc: ")]) == CLASSES


def test_gids_have_their_ipv4_address() -> None:
    from ipaddress import ip_address  # noqa: PLC0415

    gids = [Gid(0, ip_address("fe80::1"), "eth1", "RoCE v2"), Gid(1, ip_address("10.0.0.1"), "eth1", "RoCE v2")]
    lines = list(nic_tools.gid_table({"f.h1.eth1": gids}))
    assert lines[2].split() == ["f.h1.eth1", "1", "0", "fe80:0000:0000:0000:0000:0000:0000:0001", "v2", "eth1"]
    assert lines[3].split()[3:5] == ["0000:0000:0000:0000:0000:ffff:0a00:0001", "10.0.0.1"]
    assert lines[-1] == "n_gids_found=2"


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("show interfaces counters", "rocelab counters"),
        ("show lldp table", "rocelab lldp"),
        ("show pfcwd stats", "rocelab qos show"),
        ("show pfc asymmetric", "show pfc counters"),
        ("show queue watermark multicast", "show queue counters"),
    ],
)
def test_other_show_commands_of_sonic_name_the_command_to_use(line: str, remedy: str) -> None:
    node = SimpleNamespace(fabric=SimpleNamespace(topology=SimpleNamespace(qos=None)))
    tool, *words = line.split()
    with pytest.raises(
        LabError, match=f"{' '.join(words)}' is neither emulated nor a command of FRR: use .*{remedy}"
    ):
        __main__._answer(node, tool, words)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["show", "show ip route", "show interface swp1", "show version", "show lldpd"])
def test_show_commands_of_frr_are_left_to_it(line: str) -> None:
    node = SimpleNamespace(fabric=SimpleNamespace(topology=SimpleNamespace(qos=None)))
    tool, *words = line.split()
    assert __main__._answer(node, tool, words) is None  # type: ignore[arg-type]


def test_every_command_can_be_started() -> None:
    found = sorted(path.name for path in emulated.COMMANDS.iterdir())
    assert found == ["ethtool", "mlnx_qos", "show", "show_gids"]
    assert all(os.access(path, os.X_OK) for path in emulated.COMMANDS.iterdir())


def test_only_tools_that_show_counters_import_the_modules_of_commands() -> None:
    """Without KVM, the import takes seconds."""
    script = "import sys, lab.cli.emulated.__main__; print(sorted({'typer', 'rich', 'pydantic'} & set(sys.modules)))"
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "[]\n", done.stderr


def test_the_real_tool_is_none_of_ours_by_whatever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The VM sees the checkout by two paths: a command that ran itself again would never end."""
    for name in ("ours", "real"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ethtool").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/ours:{tmp_path}/real")
    monkeypatch.setenv(emulated.FOLDER, f"{tmp_path}/ours")
    run: list[str] = []

    def execv(program: str, _words: list[str]) -> None:
        run.append(program)
        raise SystemExit

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(SystemExit):
        __main__._pass_on("ethtool", ["-i", "eth1"])
    assert run == [f"{tmp_path}/real/ethtool"]
