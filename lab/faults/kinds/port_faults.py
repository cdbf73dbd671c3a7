"""Ports that are configured otherwise than they should be: with what ``rocelab qos set`` can say."""

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
    """A kind that is a change of configuration: ``settings`` says which.

    Healing puts back the values that it changed, and leaves those that somebody changed besides.
    """

    @abstractmethod
    def settings(self) -> Sequence[str]:
        """Assignments as ``rocelab qos set`` takes them."""

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
    """What is set."""

    set: tuple[str, ...]
    """Assignments of rocelab qos set, with spaces between: "ecn.3.kmin=20KB pfc.tx=false"."""

    @field_validator("set", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        words = value.split() if isinstance(value, str) else value
        if not words or not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise ValueError('says nothing; write it like set="ecn.3.kmin=20KB pfc.tx=false"')
        return tuple(words)


class PortConfig(Configured[PortParameters]):
    """Ports are configured otherwise than their siblings: any setting of ``rocelab qos set``.

    Shifted Kmin or Kmax, another XOFF, headroom that is too small, a class map that differs at one hop, PFC off at
    one end, a watchdog that is off: what somebody typed at one switch and nowhere else.
    """

    name: ClassVar = "port-config"
    form: ClassVar = Form.PORTS
    parameters: ClassVar = PortParameters

    @override
    def settings(self) -> Sequence[str]:
        return self.p.set
