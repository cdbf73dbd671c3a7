"""Requests that rtnetlink rejects: the kernel lacks a feature, or the object no longer exists."""

from __future__ import annotations

import errno

import pytest

from lab.errors import EnvironmentLacks, ExitCode, LabError, OperationFailed
from lab.kernel.netlink import rtnl


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EOPNOTSUPP, "Unknown device type"),
        (errno.EOPNOTSUPP, ""),
        (errno.EAFNOSUPPORT, ""),
        (errno.ENOENT, "Specified qdisc kind is unknown"),
        (errno.ENOENT, "TC classifier not found"),
    ],
)
def test_what_the_kernel_lacks_is_a_lack_of_the_environment(code: int, said: str) -> None:
    failure = rtnl._failure("qdisc tbf on swp1", code, said)
    assert isinstance(failure, EnvironmentLacks)
    assert "use --vm" in failure.remedy


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENODEV, ""),
        (errno.ENODEV, "Cannot find device"),
        (errno.ENOENT, ""),
        (errno.ENOENT, "Cannot find specified qdisc on specified device"),
        (errno.ENOENT, "Failed to find specified qdisc"),
        (errno.ENOENT, "Specified class not found"),
        (errno.ENOENT, "Cannot find specified filter chain"),
    ],
)
def test_an_object_that_is_gone_is_none_of_the_kernel_s_lacks(code: int, said: str) -> None:
    failure: LabError = rtnl._failure("qdisc tbf on swp1", code, said)
    assert isinstance(failure, OperationFailed)
    assert failure.exit_code is ExitCode.FAIL
    assert "--vm" not in failure.remedy
    assert "rocelab status" in failure.remedy


def test_without_root_root_is_the_remedy() -> None:
    assert rtnl._failure("link swp1", errno.EPERM, "").remedy == "run as root"


def test_the_kernel_itself_says_of_an_interface_that_is_not_there_that_it_is_gone() -> None:
    """Loopback is always 1; the highest index is nobody's."""
    from lab.kernel.netlink import links  # noqa: PLC0415 - pyroute2 is for this test only

    batch = rtnl.NetlinkBatch()
    links.set_up(batch, 2**31 - 1, "swp1")
    with pytest.raises((OperationFailed, EnvironmentLacks)) as failed:
        batch.commit()
    assert isinstance(failed.value, OperationFailed) or failed.value.remedy == "run as root"
