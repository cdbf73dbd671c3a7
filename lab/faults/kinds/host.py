"""Faults of hosts: addresses, routes, RDMA devices, programs and neighbour entries."""

from __future__ import annotations

import signal
from ipaddress import ip_address, ip_interface
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator
from typing_extensions import override

from lab.errors import UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.faults.kinds.addresses import AddressFault
from lab.kernel.netlink import ip_state
from lab.kernel.process import netns_processes, process
from lab.rdma import rxe, sysfs
from lab.wire.craft.packet_values import Mac

if TYPE_CHECKING:
    from typing import Any

    from lab.faults.fault import Before


def _interface(value: Any) -> str:
    try:
        return str(ip_interface(str(value)))
    except ValueError:
        raise ValueError(f"{value!r} is no address; write it like 10.0.0.9/31") from None


def _address(value: Any) -> str:
    try:
        return str(ip_address(str(value)))
    except ValueError:
        raise ValueError(f"{value!r} is no address; write it like 10.0.0.9") from None


class AddressParameters(Parameters):
    """The parameters of wrong-address."""

    address: Annotated[str, BeforeValidator(_interface)]
    """Address and prefix length: 10.0.0.9/31, or the right address with a wrong length."""


class WrongAddress(AddressFault[AddressParameters]):
    """A host's NIC has a different address or prefix length than the fabric's plan."""

    name: ClassVar = "wrong-address"
    parameters: ClassVar = AddressParameters

    @override
    def look(self) -> Before:
        end = self.end
        before = super().look()
        line = f"addr add {self.p.address} dev {end.interface}"
        if line in [text.removesuffix(" nodad") for text in before["kept"][_version(self.p.address)]]:
            raise UsageError(f"{end} has {self.p.address} already", "choose another")
        return before

    @override
    def inject(self, before: Before) -> None:
        end = self.end
        version = _version(self.p.address)
        own = [line for line in before["kept"][version] if line.startswith("addr add ")]
        gateways = [line for line in before["kept"][version] if line.startswith("route add ")]
        nodad = " nodad" if version == "-6" else ""
        ip_state.change(
            self.namespace,
            version,
            [*(ip_state.undone(line) for line in own), f"addr add {self.p.address} dev {end.interface}{nodad}"],
        )
        for line in gateways:  # a gateway outside the new network is lost, as with manual configuration
            ip_state.attempt(self.namespace, version, line)


class GatewayParameters(Parameters):
    """The parameters of wrong-gateway."""

    gateway: Annotated[str, BeforeValidator(_address)]
    """An address on the NIC's network that is not its leaf's: 10.0.0.3."""


class WrongGateway(AddressFault[GatewayParameters]):
    """A host's default gateway does not exist: its ARP requests get no answer."""

    name: ClassVar = "wrong-gateway"
    parameters: ClassVar = GatewayParameters

    @override
    def look(self) -> Before:
        end = self.end
        before = super().look()
        if not _defaults(before["kept"][_version(self.p.gateway)]):
            raise UsageError(f"{end} has no default route of that IP version", f"rocelab exec {end.node} -- ip route")
        return before

    @override
    def inject(self, before: Before) -> None:
        version = _version(self.p.gateway)
        lines = []
        for line in _defaults(before["kept"][version]):
            words = line.split()
            words[words.index("via") + 1] = self.p.gateway
            lines += [ip_state.undone(line), f"{' '.join(words)} onlink"]
        ip_state.change(self.namespace, version, lines)


class DefaultRouteLost(AddressFault[Parameters]):
    """A host lost a NIC's default routes, as after its link was set down and up: it reaches only its own network.

    Routes by its other NICs stay.
    """

    name: ClassVar = "default-route-lost"
    parameters: ClassVar = Parameters

    @override
    def look(self) -> Before:
        before = super().look()
        if not any(map(_defaults, before["kept"].values())):
            raise UsageError(f"{self.end} has no default route", f"rocelab exec {self.end.node} -- ip route")
        return before

    @override
    def inject(self, before: Before) -> None:
        for version, lines in before["kept"].items():
            ip_state.change(self.namespace, version, [ip_state.undone(line) for line in _defaults(lines)])


def _defaults(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("route add default via ")]


def _version(address: str) -> str:
    return "-6" if ":" in address else "-4"


class GidMoved(AddressFault[Parameters]):
    """A host's address was removed from its NIC and added again: its RoCE v2 GID has a different index.

    Programs that use the old index find no GID there.
    """

    name: ClassVar = "gid-moved"
    parameters: ClassVar = Parameters

    @override
    def look(self) -> Before:
        end = self.end
        if not self.fabric.topology.node(end.node).rdma:
            raise UsageError(f"{self.name}: {end.node} has no RDMA device", "name a host that has one")
        spare = f"addr add 192.0.2.1/32 dev {end.interface}"
        return {**super().look(), "spare": spare}

    @override
    def inject(self, before: Before) -> None:
        self._rearrange(before, spare_stays=True)

    @override
    def heal(self, before: Before) -> None:
        self._rearrange(before, spare_stays=False)

    def _rearrange(self, before: Before, *, spare_stays: bool) -> None:
        """Reorder the addresses: a new address takes the first free entry of the GID table."""
        end = self.end
        namespace, kept = self.namespace, before["kept"]
        own = [line for line in kept["-4"] if line.startswith("addr add ")]
        for line in (*own, before["spare"]):
            ip_state.attempt(namespace, "-4", ip_state.undone(line))
        if spare_stays:
            ip_state.change(namespace, "-4", [before["spare"]])
            kept = {**kept, "-4": [before["spare"], *kept["-4"]]}
        ip_state.put_back(namespace, end.interface, kept)


class RdmaDeviceLost(Fault[Parameters]):
    """A host's RDMA device is gone, as after its driver was unloaded; the interface stays.

    No program may use the device at that time.
    """

    name: ClassVar = "rdma-device-lost"
    form: ClassVar = Form.NIC
    parameters: ClassVar = Parameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the RDMA device of {self.end}"})

    @override
    def look(self) -> Before:
        if not self.fabric.topology.node(self.end.node).rdma:
            raise UsageError(f"{self.name}: {self.end.node} has no RDMA device", "name a host that has one")
        if not sysfs.exists(self._device):
            raise UsageError(f"{self.end} has lost its RDMA device already", "rocelab status")
        return {"device": self._device}

    @override
    def inject(self, before: Before) -> None:
        rxe.delete(before["device"])

    @override
    def heal(self, before: Before) -> None:
        if not sysfs.exists(before["device"]):
            rxe.create(self.namespace, before["device"], self.end.interface)

    @property
    def _device(self) -> str:
        return rxe.device_name(self.fabric.name, self.end.node, self.end.interface)


class ProgramParameters(Parameters):
    """The parameters of process faults."""

    name: str = "ib_"
    """The prefix of their names: ib_ for perftest's, ib_write_bw for one."""


class ProcessStopped(Fault[ProgramParameters]):
    """Programs of a host hang: a writer that stopped, or a reader that reads nothing."""

    name: ClassVar = "process-stopped"
    form: ClassVar = Form.HOST
    parameters: ClassVar = ProgramParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the programs of {self.place.node}"})

    @override
    def look(self) -> Before:
        if not netns_processes.programs(self.namespace, self.p.name):
            raise UsageError(
                f"no program {self.p.name}... runs in {self.place.node}", f"rocelab exec {self.place.node} -- ps"
            )
        return {}

    @override
    def inject(self, before: Before) -> None:
        self._send(signal.SIGSTOP)

    @override
    def heal(self, before: Before) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        pids = netns_processes.programs(self.namespace, self.p.name)
        process.send(pids, number, meant=lambda pid: pid in netns_processes.programs(self.namespace, self.p.name))


class ProcessKilled(ProcessStopped):
    """Programs of a host crash. This cannot be healed."""

    name: ClassVar = "process-killed"
    instant: ClassVar = True

    @override
    def inject(self, before: Before) -> None:
        self._send(signal.SIGKILL)

    @override
    def heal(self, before: Before) -> None:
        """Do nothing: the processes are gone."""


class NeighbourParameters(Parameters):
    """The parameters of stale-neighbour."""

    of: Annotated[str, BeforeValidator(_address)]
    """The neighbour's IP address."""
    mac: Mac = "02:00:00:00:dd:dd"
    """The MAC address that the neighbour no longer has."""


class StaleNeighbour(Fault[NeighbourParameters]):
    """A neighbour entry has the MAC address of a replaced NIC: frames go to an address that no device has."""

    name: ClassVar = "stale-neighbour"
    form: ClassVar = Form.END
    parameters: ClassVar = NeighbourParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the neighbour {self.p.of} of {self.end}"})

    @override
    def look(self) -> Before:
        end = self.end
        shown = ip_state.ask(self.namespace, "neigh", "show", "to", self.p.of, "dev", end.interface)
        return {"mac": next((each["lladdr"] for each in shown if "lladdr" in each), "")}

    @override
    def inject(self, before: Before) -> None:
        end = self.end
        line = f"neigh replace {self.p.of} lladdr {self.p.mac} dev {end.interface} nud permanent"
        ip_state.change(self.namespace, _version(self.p.of), [line])

    @override
    def heal(self, before: Before) -> None:
        end = self.end
        line = f"neigh replace {self.p.of} lladdr {before['mac']} dev {end.interface} nud reachable"
        if not before["mac"]:
            line = f"neigh del {self.p.of} dev {end.interface}"
        ip_state.attempt(self.namespace, _version(self.p.of), line)
