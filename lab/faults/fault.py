"""What a fault is: a kind, a place and parameters in a running fabric, and three steps: look, inject, heal."""

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
"""What a fault will change, as it was: plain data that JSON keeps."""


class Parameters(BaseModel):
    """How a fault is: every key with its meaning, default and bounds. Written with hyphens for underscores."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class Fault(ABC, Generic[P]):
    """One fault of the kind that the class is. What it does to a fabric is in the ledger before it is done.

    The docstring of each kind is what ``rocelab fault show`` says of it: its first line is for lists.
    """

    fabric: Fabric
    place: FaultPlace
    p: P

    name: ClassVar[str]
    form: ClassVar[Form]
    parameters: ClassVar[type[Parameters]]
    instant: ClassVar[bool] = False
    """Whether it is over once it has happened: nothing is left to heal."""

    @abstractmethod
    def claims(self) -> frozenset[str]:
        """What of the fabric it changes, in words; two faults that claim the same are refused."""

    @abstractmethod
    def look(self) -> Before:
        """What is there now and will be put back. It touches nothing.

        UsageError for what this fabric, place or moment cannot have, EnvironmentLacks for what the machine lacks.
        """

    @abstractmethod
    def inject(self, before: Before) -> None:
        """Break it."""

    @abstractmethod
    def heal(self, before: Before) -> None:
        """Put back what ``look`` saw, also where ``inject`` was cut short; can be repeated."""

    @classmethod
    def summary(cls) -> str:
        """What the kind is, in a line."""
        return (cls.__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def end(self) -> Endpoint:
        """The end of a link that it is about, or the first of them."""
        return self.place.ends[0]

    @property
    def namespace(self) -> Namespace:
        """That of the node that it is about."""
        return self.fabric.namespace(self.place.node)

    def __str__(self) -> str:
        return f"{self.name} at {self.place}"
