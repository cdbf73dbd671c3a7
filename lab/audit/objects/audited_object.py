"""The base of all audited objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Text: TypeAlias = Mapping[str, str]
Counters: TypeAlias = Mapping[str, int]


class AuditedObject:
    """The base of all objects."""

    __slots__ = ()
    LABEL: ClassVar[str]
    KEY: ClassVar[tuple[str, ...]]
    STATE: ClassVar[tuple[str, ...]] = ()
    LEADING: ClassVar[str] = ""
    """The setting that the others depend on: if it differs, they are not compared."""

    @property
    def identity(self) -> str:
        """The object's name on its node, like ``route 10.0.0.0/31``."""
        return " ".join([self.LABEL, *filter(None, (str(getattr(self, name)) for name in self.KEY))])

    @property
    def transient(self) -> bool:
        """Whether traffic creates and removes the object: its absence means nothing."""
        return False

    @property
    def place(self) -> str:
        """The interface that the object belongs to; "" for none."""
        return str(getattr(self, "interface", ""))

    def settings(self) -> dict[str, str]:
        """Return the settings by name, as text. Those of a mapping are named by its keys."""
        return dict(self._settings())

    def _settings(self) -> Iterator[tuple[str, str]]:
        for each in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, each.name)
            if each.name in self.KEY or each.name in self.STATE:
                continue
            if isinstance(value, Mapping):
                yield from ((str(name), str(said)) for name, said in value.items())
            else:
                yield each.name.replace("_", " "), as_text(value)


def as_text(value: object) -> str:
    """Return a value as users read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value != "" else "none"
