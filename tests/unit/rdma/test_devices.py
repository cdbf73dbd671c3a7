"""Names of devices, and what sysfs says of them, on a tree made by hand."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.backends.netns_backend import NetnsBackend
from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from lab.model.load import read_topology
from lab.rdma import device_counters, rxe, sysfs

NAME = st.from_regex(r"[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,10}){0,2}", fullmatch=True)
TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@given(first=st.tuples(NAME, NAME, NAME), second=st.tuples(NAME, NAME, NAME))
def test_devices_share_a_name_only_when_they_are_the_same(
    first: tuple[str, str, str], second: tuple[str, str, str]
) -> None:
    """Two shortened names can be equal, since a digest is short."""
    one, other = rxe.device_name(*first), rxe.device_name(*second)
    if "_" not in one or "_" not in other:
        assert (one == other) == (first == second)
    assert len(one) <= 15
    assert "/" not in one
    assert "%" not in one


@pytest.mark.parametrize(
    ("fabric", "host", "interface", "name"),
    [
        ("incast", "h1", "eth1", "incast.h1.eth1"),
        ("clos-2x2", "h1", "eth1", "clo_weg.h1.eth1"),
        ("clos-2x4", "h1", "eth1", "clo_p3c.h1.eth1"),
        ("clos-2x4", "h12", "eth1", "cl_p3c.h12.eth1"),
        ("clos-2x4", "h1000", "eth1", "_p3c.h1000.eth1"),
        ("lab", "storage-host-12", "eth1", "stor_pgpld.eth1"),
        ("ab", "h1", "enp129s0f0np0", "h1_chic6"),
    ],
)
def test_long_names_are_shortened_and_stay_apart(fabric: str, host: str, interface: str, name: str) -> None:
    assert rxe.device_name(fabric, host, interface) == name


def test_names_of_the_greatest_lengths_stay_apart() -> None:
    names = {rxe.device_name("f" * 24, "h" * 32, f"eth{number}") for number in range(1001, 2001)}
    assert len(names) == 1000
    assert max(map(len, names)) <= 15


def test_two_hosts_whose_devices_would_share_a_name_are_refused_by_name() -> None:
    """A digest is short. Without the check, the second device would be refused as that of somebody else."""
    hosts = [SimpleNamespace(name=f"storage-host-{number}", rdma=True) for number in (823, 7, 15261)]
    assert rxe.device_name("lab", hosts[0].name, "eth1") == rxe.device_name("lab", hosts[2].name, "eth1")
    fabric: Any = SimpleNamespace(
        name="lab",
        topology=SimpleNamespace(hosts=hosts, qos=None),
        plan={host.name: SimpleNamespace(nics=("eth1",)) for host in hosts},
    )
    both = "the RDMA devices of storage-host-823:eth1 and storage-host-15261:eth1 would both be named stor_uchra.eth1"
    with pytest.raises(UsageError, match=f"{both}: give one of these hosts another name"):
        NetnsBackend()._start_rdma(fabric, lambda *_: None)
    assert rxe.device_names("lab", [("h1", "eth1"), ("h1", "eth2")]) == ["lab.h1.eth1", "lab.h1.eth2"]


def test_ucx_can_open_every_device_of_the_shipped_topologies() -> None:
    for path in sorted(TOPOLOGIES.glob("*.yaml")):
        topology = read_topology(path)
        names = [rxe.device_name(topology.name, host.name, "eth1") for host in topology.hosts]
        assert len(set(names)) == len(names), path
        assert max(map(len, names), default=0) <= 15, path


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An rxe device on eth1 with four GIDs, one of which went away."""
    for module in (sysfs, device_counters):
        monkeypatch.setattr(module, "DEVICES", tmp_path)
    port = tmp_path / "t.h1.eth1" / "ports" / "1"
    gids = ["fe80::1", "::ffff:10.0.0.1", "::", "fdc0::2", *["::"] * 30]
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs", "hw_counters"):
        (port / folder).mkdir(parents=True)
    for index, gid in enumerate(gids):
        (port / "gids" / str(index)).write_text(ip_address(gid).exploded + "\n", encoding="ascii")
        if gid != "::":
            (port / "gid_attrs/types" / str(index)).write_text("RoCE v2\n", encoding="ascii")
            (port / "gid_attrs/ndevs" / str(index)).write_text("eth1\n", encoding="ascii")
    (port / "state").write_text("4: ACTIVE\n", encoding="ascii")
    (tmp_path / "t.h1.eth1" / "parent").write_text("eth1\n", encoding="ascii")
    return port


def test_a_name_without_its_namespace_has_no_device(
    device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``down`` deletes such a name. A daemon in the namespace can keep the device until then."""
    monkeypatch.setattr(netns, "NETNS_DIR", tmp_path)
    (tmp_path / "rl-t.h1").write_text("4711", encoding="ascii")  # the cookie, as ``umount`` uncovers it
    assert netns.own({"rl-t.h1": 4711}) == ["rl-t.h1"]
    assert not rxe.is_in(Namespace("rl-t.h1"), device.parents[1].name)


def test_gids_are_found_by_address_past_a_hole(device: Path) -> None:
    assert device.is_dir()
    assert [(gid.index, str(gid.address)) for gid in sysfs.gids("t.h1.eth1")] == [
        (0, "fe80::1"),
        (1, "10.0.0.1"),
        (3, "fdc0::2"),
    ]
    assert sysfs.gid_index("t.h1.eth1", ip_address("10.0.0.1")) == 1
    assert sysfs.gid_index("t.h1.eth1", ip_address("fdc0::2")) == 3
    assert sysfs.netdev("t.h1.eth1") == "eth1"


def test_an_address_without_gid_is_named_with_those_that_have_one(device: Path) -> None:
    assert device.is_dir()
    with pytest.raises(OperationFailed, match=r"no GID for 10\.9\.9\.9 \(it has fe80::1, 10\.0\.0\.1, fdc0::2\)"):
        sysfs.gid_index("t.h1.eth1", ip_address("10.9.9.9"), timeout=0.05)


def test_a_port_that_is_down_is_not_waited_for_for_ever(device: Path) -> None:
    sysfs.wait_active("t.h1.eth1", timeout=0)
    (device / "state").write_text("1: DOWN\n", encoding="ascii")
    with pytest.raises(OperationFailed, match=r"t\.h1\.eth1 is DOWN, not ACTIVE: set interface eth1"):
        sysfs.wait_active("t.h1.eth1", timeout=0.05)


def test_a_device_that_is_missing_reads_as_nothing(device: Path) -> None:
    assert device.is_dir()
    assert not sysfs.exists("t.h9.eth1")
    assert (sysfs.state("t.h9.eth1"), sysfs.gids("t.h9.eth1"), sysfs.packets("t.h9.eth1", "sent")) == ("", (), 0)
    assert sysfs.users("t.h9.eth1") == {}
    sysfs.wait_gone("t.h9.eth1", timeout=0)
    rxe.delete("t.h9.eth1")
    with pytest.raises(OperationFailed, match="does not go away"):
        sysfs.wait_gone("t.h1.eth1", timeout=0.05)


def test_counters_are_read_without_the_lifespan_of_their_cache(device: Path) -> None:
    for name, value in (("sent_pkts", 5), ("lifespan", 10), ("brand_new", 1)):
        (device / "hw_counters" / name).write_text(f"{value}\n", encoding="ascii")
    assert device_counters.snapshot(["t.h1.eth1"]) == {"t.h1.eth1": {"sent_pkts": 5, "brand_new": 1}}
    assert sysfs.packets("t.h1.eth1", "sent") == 5
    with pytest.raises(EnvironmentLacks, match=r"RDMA device t\.h9\.eth1 is missing"):
        device_counters.read("t.h9.eth1")


def test_only_what_moved_is_told_in_the_order_of_the_table() -> None:
    before = {"rcvd_seq_err": 4, "sent_pkts": 10, "rcvd_pkts": 7}
    after = {"brand_new": 3, "rcvd_seq_err": 5, "sent_pkts": 30, "rcvd_pkts": 7}
    assert list(device_counters.moved(before, after).items()) == [
        ("sent_pkts", 20),
        ("rcvd_seq_err", 1),
        ("brand_new", 3),
    ]
    assert device_counters.moved(after, after) == {}
    assert device_counters.meaning("rcvd_seq_err").trouble
    assert device_counters.meaning("brand_new") is device_counters.UNKNOWN


def test_packets_that_came_again_are_no_new_ones(device: Path) -> None:
    for name, value in (("rcvd_pkts", 9), ("duplicate_request", 3), ("out_of_seq_request", 1)):
        (device / "hw_counters" / name).write_text(f"{value}\n", encoding="ascii")
    assert sysfs.new_packets("t.h1.eth1") == 5
    assert sysfs.new_packets("t.h9.eth1") == 0
