"""A fault outside the catalogue: the actions that make it, its undo, and the ground truth to judge a diagnosis by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class Harm(StrEnum):
    """The worst effect that a fault can have on the traffic of its run."""

    LOSS = "loss"
    """Packets are lost, or a pair cannot communicate."""
    SLOW = "slow"
    """Packets are late, paused, reordered, remarked or on fewer paths; none is lost for good."""
    NOTHING = "nothing"
    """State differs, and the traffic of the run does not depend on it."""


@dataclass(frozen=True)
class Command:
    """A program that is run in a node, and the one that reverts it. Without ``undo`` the fabric is built again."""

    node: str
    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.node}: {' '.join(self.argv)}"


@dataclass(frozen=True)
class Injected:
    """A change that ``rocelab fault inject`` makes and heals: a link's disturbance, port or FRR configuration."""

    kind: str
    place: str
    parameters: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} {self.place} {' '.join(f'{name}={of}' for name, of in self.parameters.items())}"


@dataclass(frozen=True)
class CraftedFrames:
    """A program that sends crafted frames until the undo ends it: words behind ``rocelab craft``."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"craft {' '.join(self.words)}"


Action: TypeAlias = Command | Injected | CraftedFrames


@dataclass(frozen=True)
class HiddenFault:
    """A fault, the traffic beside it, and what a diagnosis should say about it.

    A place is a link (``leaf1:swp1--spine1:swp1``), a port or a node. An answer is exact if all of its places are
    among those of ``places``: the ends of a link, or the node of a port, are as good as the link or port itself.
    """

    production: str
    """The rule of the grammar that made it."""
    families: frozenset[str]
    """The families of causes that are a right answer."""
    places: tuple[str, ...]
    actions: tuple[Action, ...]
    harm: Harm
    pairs: tuple[str, ...]
    """Transfers that run during the whole recording, of ``qps`` QPs each."""
    qps: int = 8

    def __str__(self) -> str:
        return f"{'; '.join(map(str, self.actions))}; traffic {' '.join(self.pairs)}"

    @property
    def needs_rebuild(self) -> bool:
        """Whether an action has no undo."""
        return any(isinstance(each, Command) and not each.undo for each in self.actions)

    def truth(self) -> dict[str, Any]:
        """Return the ground truth as plain data for JSON."""
        return {
            "production": self.production, "families": sorted(self.families), "places": list(self.places),
            "harm": self.harm.value, "did": str(self),
        }  # fmt: skip
