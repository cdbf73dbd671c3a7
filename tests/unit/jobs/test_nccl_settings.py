"""NCCL's settings: what UCX gets of them, which NICs they allow, and what is refused with a reason."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import pytest

from lab.errors import InvalidInput, UsageError
from lab.jobs.nccl_settings import nccl_settings, net_devices, read_settings
from lab.jobs.training_spec import load_training
from lab.kernel.process.netns import Namespace
from lab.rdma.measure import Nic

HOST: Final = Namespace("t-h1")
NICS: Final = tuple(Nic("h1", f"eth{n}", HOST, f"rails.h1.eth{n}", ip_address(f"10.0.0.{n}"), False) for n in (1, 2))


@pytest.mark.parametrize(
    ("setting", "ucx"),
    [
        ("NCCL_IB_GID_INDEX=3", {"UCX_IB_GID_INDEX": "3"}),
        ("NCCL_IB_TC=026", {"UCX_IB_TRAFFIC_CLASS": "26"}),
        ("NCCL_IB_TIMEOUT=18", {"UCX_RC_VERBS_TIMEOUT": "1073741.824us"}),  # IBA vol. 1, 9.7.6.1.3
        ("NCCL_IB_RETRY_CNT=7", {"UCX_RC_VERBS_RETRY_COUNT": "7"}),
        (
            "NCCL_IB_QPS_PER_CONNECTION=2",
            {"UCX_IB_NUM_PATHS": "2", "UCX_MAX_RNDV_RAILS": "2", "UCX_MAX_EAGER_RAILS": "2"},
        ),
        ("NCCL_SOCKET_IFNAME=eth", {"UCX_NET_DEVICES": "rails.h1.eth1:1,eth1"}),
        ("NCCL_SOCKET_IFNAME==eth", {"UCX_NET_DEVICES": "rails.h1.eth1:1,eth"}),
        ("NCCL_SOCKET_IFNAME=eth2", {"UCX_NET_DEVICES": "rails.h1.eth1:1,eth2"}),
        ("NCCL_SOCKET_IFNAME==eth2", {"UCX_NET_DEVICES": "rails.h1.eth1:1,eth2"}),
        ("NCCL_IB_HCA=eth1", {}),
    ],
)
def test_a_setting_is_ucx_s_variable(setting: str, ucx: dict[str, str]) -> None:
    assert read_settings([setting]).variables(NICS[0]) == ucx


@pytest.mark.parametrize(
    ("written", "allowed"),
    [
        ("eth", "eth1 eth2"),
        ("eth2", "eth2"),
        ("=eth1:1", "eth1"),
        ("^eth1", "eth2"),
        ("^=eth1,eth3", "eth2"),
        ("eth1,eth2", "eth1 eth2"),
    ],
)
def test_devices_are_chosen_as_nccl_chooses_them(written: str, allowed: str) -> None:
    settings = nccl_settings({"NCCL_IB_HCA": written})
    assert [nic.interface for nic in settings.allowed(NICS)] == allowed.split()


def test_two_devices_are_two_rails() -> None:
    railed = nccl_settings({"NCCL_IB_HCA": "eth1,eth2"}).with_rails(NICS[0], NICS)
    assert railed.rails == NICS[1:]
    assert net_devices(railed, "eth1") == "rails.h1.eth1:1,rails.h1.eth2:1,eth1"
    assert nccl_settings({"NCCL_IB_HCA": "eth1"}).with_rails(NICS[0], NICS).rails == ()
    assert nccl_settings({}).with_rails(NICS[0], NICS).rails == ()


def test_each_rail_has_the_qps_of_a_connection() -> None:
    settings = nccl_settings({"NCCL_IB_HCA": "eth1,eth2", "NCCL_IB_QPS_PER_CONNECTION": 2})
    found = settings.variables(settings.with_rails(NICS[0], NICS))
    assert found == {"UCX_IB_NUM_PATHS": "2", "UCX_MAX_RNDV_RAILS": "4", "UCX_MAX_EAGER_RAILS": "4"}


def test_a_device_that_no_host_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        nccl_settings({"NCCL_IB_HCA": "mlx5_0"}).allowed(NICS)
    assert "NCCL_IB_HCA=mlx5_0 allows no RDMA device" in caught.value.message
    assert "eth1, eth2" in caught.value.remedy


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("NCCL_IB_SL=3", "untagged"),
        ("NCCL_IB_DISABLE=1", "TCP"),
        ("NCCL_P2P_DISABLE=1", "no GPUs"),
        ("NCCL_NET_GDR_LEVEL=SYS", "no GPUs"),
        ("NCCL_ALGO=Ring", "algorithms of its own"),
        ("NCCL_IB_ADAPTIVE_ROUTING=1", "hardware"),
        ("NCCL_BUFFSIZE=4194304", "NCCL itself does not run"),
        ("NCCL_IB_TC=256", "out of range"),
        ("NCCL_IB_GID_INDEX=-1", "out of range"),
        ("NCCL_IB_TIMEOUT=20s", "out of range"),
        ("NCCL_IB_TIMEOUT", "has no value"),
        ("NCCL_IB_HCA=", "no names"),
        ("NCCL_SOCKET_IFNAME=a b", "no interface"),
        ("NCCL_IB_TCS=106", "NCCL itself does not run"),
        ("NCL_IB_TC=106", "is no setting of NCCL"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_reason(word: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_settings([word])


def test_a_setting_is_written_once() -> None:
    with pytest.raises(UsageError, match="twice"):
        read_settings(["NCCL_IB_TC=1", "NCCL_IB_TC=2"])


def test_a_file_has_settings_as_well() -> None:
    job = "{ranks: 2, compute: 1ms, allreduce: 1MiB, nccl: {NCCL_IB_TC: 26, NCCL_IB_GID_INDEX: 0}}"
    spec = load_training(job, "job")
    assert spec.tclass == 26, "the class that the answer, the warning and the recording have"
    assert spec.settings.gid_index == 0


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("nccl: {NCCL_IB_SL: 3}", "untagged"),
        ("nccl: {NCCL_IB_TC: 26}, tclass: 106", "is there beside NCCL_IB_TC"),
    ],
)
def test_a_file_with_a_wrong_setting_is_refused(keys: str, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_training(f"{{ranks: 2, compute: 1ms, allreduce: 1MiB, {keys}}}", "job")
    assert why in caught.value.problems[0].message
