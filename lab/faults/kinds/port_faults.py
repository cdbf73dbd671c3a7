"""Faults of port configuration: any setting of ``rocelab qos set``."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import field_validator
from typing_extensions import override

from lab.backends.live_qos import apply_nodes, put_back, require_ports
from lab.errors import UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.model.qos.diff import differences, put
from lab.model.qos.port_change import QosRequest, work_out
from lab.model.qos.qos_store import dump_node, restore_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.faults.fault import Before
    from lab.model.qos.port import NodeQos

P = TypeVar("P", bound=Parameters)


class Configured(Fault[P], Generic[P]):
    """A kind that changes the settings that ``settings`` returns.

    Healing restores the values that it changed, and keeps changes that were made by others.
    """

    @abstractmethod
    def settings(self) -> Sequence[str]:
        """Return assignments in the format of ``rocelab qos set``."""

    @override
    def claims(self) -> frozenset[str]:
        paths = [text.partition("=")[0].strip() for text in self.settings()]
        return frozenset(f"{path} of {end}" for path in paths for end in self.place.ends)

    @override
    def look(self) -> Before:
        require_ports(self.fabric)
        changes = [
            {"node": name, "path": list(path), "before": before, "after": after}
            for name, node in self._changed().items()
            for path, before, after in differences(dump_node(self.fabric.qos[name]), dump_node(node))
        ]
        if not changes:
            raise UsageError(
                f"{self.name} changes nothing at {self.place}", "rocelab qos show lists the current settings"
            )
        return {"changes": changes}

    @override
    def inject(self, before: Before) -> None:
        apply_nodes(self.fabric, self._changed())

    @override
    def heal(self, before: Before) -> None:
        trees: dict[str, dict[str, Any]] = {}
        for change in before["changes"]:
            name = change["node"]
            put(trees.setdefault(name, dump_node(self.fabric.qos[name])), change["path"], change["before"])
        put_back(self.fabric, {name: restore_node(tree) for name, tree in trees.items()})

    def _changed(self) -> dict[str, NodeQos]:
        return work_out(self.fabric.topology, self.fabric.qos, self.place.ends, QosRequest(self.settings()))


class PortParameters(Parameters):
    """The parameters of port-config."""

    set: tuple[str, ...]
    """Assignments of rocelab qos set, separated by spaces: "ecn.3.kmin=20KB pfc.tx=false"."""

    @field_validator("set", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        words = value.split() if isinstance(value, str) else value
        if not words or not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise ValueError('says nothing; write it like set="ecn.3.kmin=20KB pfc.tx=false"')
        return tuple(words)


class PortConfig(Configured[PortParameters]):
    """Ports are configured differently than their siblings, by any setting of ``rocelab qos set``.

    Examples: shifted Kmin or Kmax, another XOFF, too little headroom, a different class map at one hop, PFC or the
    watchdog off at one switch.
    """

    name: ClassVar = "port-config"
    form: ClassVar = Form.PORTS
    parameters: ClassVar = PortParameters

    @override
    def settings(self) -> Sequence[str]:
        return self.p.set
