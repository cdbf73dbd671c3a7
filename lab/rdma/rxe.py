"""SoftRoCE (rdma_rxe) devices on the interfaces of namespaces.

The subsystem stays in its *shared* mode, in which every namespace sees every device. So names must be unique on the
machine. Since Linux 7.1 the device's UDP socket is in the namespace of its interface.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import CommandFailed, EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.process import locks, netns_teardown, process, sockets
from lab.rdma import sysfs
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.kernel.process.netns import Namespace

MAX_NAME: Final = 15
"""Maximum number of characters: UCX opens no device with a longer name (UCT_MD_NAME_MAX of 16, with a final zero)."""
_MODULES: Final = ("rdma_rxe", "ib_uverbs", "rdma_ucm")
_NEEDS_VM: Final = "use the VM: rocelab --vm, see rocelab doctor"
_FABRIC_DIGEST: Final = 3
_DEVICE_DIGEST: Final = 5


def device_name(fabric: str, host: str, interface: str) -> str:
    """Return the machine-wide name of a host's RDMA device, such as ``incast.h1.eth1``.

    In a name that is too long, the fabric is shortened with a digest: ``clo_p3c.h1.eth1``. If a host's name is too
    long as well, the fabric is left out and the host is shortened: ``stor_pgpld.eth1``. Names of fabrics and nodes
    contain neither dots nor underscores, so a shortened name is never another device's full name. Two shortened names
    can be equal, since digests are short: ``device_names`` finds that.
    """
    name = f"{fabric}.{host}.{interface}"
    if len(name) <= MAX_NAME:
        return name
    end = f".{host}.{interface}"
    room = MAX_NAME - len(end)
    if room > _FABRIC_DIGEST:
        return _shortened(fabric, room, _digest(fabric)[:_FABRIC_DIGEST]) + end
    digest = _digest(name)[:_DEVICE_DIGEST]
    end = f".{interface}"
    room = MAX_NAME - len(end)
    return _shortened(host, room, digest) + end if room > _DEVICE_DIGEST else _shortened(host, MAX_NAME, digest)


def device_names(fabric: str, nics: Iterable[tuple[str, str]]) -> list[str]:
    """Return the name of the device of each NIC, given as host and interface; UsageError if two have the same."""
    owners: dict[str, str] = {}
    for host, interface in nics:
        device, nic = device_name(fabric, host, interface), f"{host}:{interface}"
        if device in owners:
            raise UsageError(
                f"the RDMA devices of {owners[device]} and {nic} would both be named {device}",
                "give one of these hosts another name in the topology",
            )
        owners[device] = nic
    return list(owners)


def _shortened(name: str, length: int, digest: str) -> str:
    return f"{name[: length - len(digest) - 1]}_{digest}"


def _digest(text: str) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode("ascii").lower()


def check() -> None:
    """Load rxe and its user-space interfaces; EnvironmentLacks if this machine cannot run it."""
    process.find_tool("rdma", "iproute2")
    missing = [module for module in _MODULES if not Path("/sys/module", module).exists()]
    if missing:
        if os.geteuid() != 0:
            raise EnvironmentLacks(f"kernel module {missing[0]} is not loaded", "run as root")
        try:
            process.run([process.find_tool("modprobe", "kmod"), "-a", *missing])
        except CommandFailed as error:
            raise EnvironmentLacks(f"this kernel has no module {missing[0]}", _NEEDS_VM) from error
    sysfs.require()
    if _netns_mode() != "shared":
        raise EnvironmentLacks("the RDMA subsystem is in exclusive netns mode", "rdma system set netns shared")


def create(namespace: Namespace, device: str, netdev: str) -> None:
    """Create the rxe device ``device`` on the interface ``netdev`` and return when it is ACTIVE.

    OperationFailed if it cannot be created, EnvironmentLacks on a kernel that does not put its socket into the
    namespace (before 7.1).
    """
    sysfs.require()
    with locks.held(netns_teardown.RDMA_DEVICES):  # rxe has races between concurrent calls
        try:
            namespace.run([_tool(), "link", "add", device, "type", "rxe", "netdev", netdev])
        except CommandFailed as error:
            raise _creation_failure(namespace, device, netdev, error) from error
    if not _listens(namespace):
        delete(device)
        raise EnvironmentLacks("this kernel runs rxe outside the namespace (it needs Linux 7.1)", _NEEDS_VM)
    sysfs.wait_active(device)


def delete(*devices: str) -> None:
    """Delete the devices that exist, and return when they are gone. No namespace teardown runs meanwhile.

    A program with an open device would block the kernel's removal forever, and no signal could end that. So this is
    refused: OperationFailed names the program.
    """
    if there := [device for device in devices if sysfs.exists(device)]:
        with netns_teardown.none_ending():
            for device in there:
                _delete(device)


def _delete(device: str) -> None:
    holders: dict[int, str] = {}

    def released() -> bool:
        holders.clear()
        holders.update(sysfs.users(device))
        return not holders

    if not sysfs.until(released, timeout=2.0):
        pid, name = next(iter(holders.items()))
        raise OperationFailed(f"RDMA device {device} is in use by {name}", f"end it first: kill {pid}")
    with contextlib.suppress(CommandFailed):  # it may have gone with its interface: see below
        process.run([_tool(), "link", "delete", device])
    sysfs.wait_gone(device)


def devices_in(namespace: Namespace) -> Mapping[str, str]:
    """Return the RDMA devices with an interface in the namespace: device name to interface name."""
    links = json.loads(namespace.run([_tool(), "-j", "link", "show"]).stdout or "[]")
    return {link["ifname"]: link["netdev"] for link in links if "netdev" in link}


def is_in(namespace: Namespace, device: str) -> bool:
    """Whether an RDMA device of this name exists on an interface of this namespace.

    False if the namespace is gone and its name is left as an ordinary file: its devices end with it.
    """
    return sysfs.exists(device) and namespace.answers() and device in devices_in(namespace)


def _tool() -> str:
    return process.find_tool("rdma", "iproute2")


def _netns_mode() -> str:
    """Return ``shared`` or ``exclusive``. In iproute2 6 this command prints invalid JSON, so its text is parsed."""
    words = process.run([_tool(), "system", "show"]).stdout.split()
    return words[words.index("netns") + 1] if "netns" in words else ""


def _listens(namespace: Namespace) -> bool:
    return namespace.inside(lambda: sockets.waits("udp", ROCEV2_PORT))


def _creation_failure(
    namespace: Namespace, device: str, netdev: str, error: CommandFailed
) -> OperationFailed | EnvironmentLacks:
    said = error.stderr.strip().removeprefix("error: ")
    what = f"no RDMA device {device} on {namespace.name}:{netdev}"
    if "Operation not permitted" in said:
        return EnvironmentLacks(f"{what}: {said}", "run as root")
    if sysfs.exists(device):
        return OperationFailed(f"{what}: the name is taken", f"rdma link delete {device}, if it is yours")
    if "No such device" in said:
        return OperationFailed(f"{what}: no such interface", "rocelab down, then rocelab up")
    if "File exists" in said:
        return OperationFailed(f"{what}: the interface has one already", "rocelab rdma show lists it")
    return OperationFailed(f"{what}: {said}", "see the kernel's log: dmesg")
