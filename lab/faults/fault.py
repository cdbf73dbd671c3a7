"""The base class of faults: a kind, a place and parameters in a running fabric, with look, inject and heal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.backend import Fabric
    from lab.faults.fault_place import FaultPlace, Form
    from lab.kernel.process.netns import Namespace
    from lab.model.topology import Endpoint

Before: TypeAlias = "Mapping[str, Any]"
"""The state before a fault, as plain data for JSON."""


class Parameters(BaseModel):
    """The parameters of a kind: each has a meaning, a default and bounds. Hyphens replace underscores in input."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class Fault(ABC, Generic[P]):
    """A fault of one kind. Its effect on the fabric is recorded in the ledger before it is injected.

    ``rocelab fault show`` prints the docstring of each kind; lists show its first line.
    """

    fabric: Fabric
    place: FaultPlace
    p: P

    name: ClassVar[str]
    form: ClassVar[Form]
    parameters: ClassVar[type[Parameters]]
    instant: ClassVar[bool] = False
    """Whether the fault is a single event, with nothing to heal."""

    @abstractmethod
    def claims(self) -> frozenset[str]:
        """Return the settings that the fault changes, as phrases. Two faults with a common claim are refused."""

    @abstractmethod
    def look(self) -> Before:
        """Return the current state, which ``heal`` restores. Changes nothing.

        Raises UsageError if this fabric, place or state does not allow the fault, EnvironmentLacks if the machine
        lacks a feature.
        """

    @abstractmethod
    def inject(self, before: Before) -> None:
        """Inject the fault."""

    @abstractmethod
    def heal(self, before: Before) -> None:
        """Restore the state from ``look``, even after an interrupted ``inject``. Can be repeated."""

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the kind's docstring, without the full stop."""
        return (cls.__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def end(self) -> Endpoint:
        """The first link end of the place."""
        return self.place.ends[0]

    @property
    def namespace(self) -> Namespace:
        """The network namespace of the place's node."""
        return self.fabric.namespace(self.place.node)

    def __str__(self) -> str:
        return f"{self.name} at {self.place}"
