"""Backends by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.backends.adopted.adopted_lab import AdoptedBackend
from lab.backends.containerlab_backend import ContainerlabBackend
from lab.backends.netns_backend import NetnsBackend
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.backend import Backend

DEFAULT: Final = NetnsBackend.name
_BACKENDS: Final[Mapping[str, type[Backend]]] = {
    NetnsBackend.name: NetnsBackend,
    ContainerlabBackend.name: ContainerlabBackend,
    AdoptedBackend.name: AdoptedBackend,
}
_BUILDING: Final = (NetnsBackend.name, ContainerlabBackend.name)


def backend(name: str) -> Backend:
    """The backend called ``name``; UsageError lists what there is."""
    if name not in _BACKENDS:
        raise UsageError(f"no backend {name}", f"there is {', '.join(_BUILDING)}")
    return _BACKENDS[name]()


def of_image(name: str, image: str) -> Backend:
    """The same, its nodes made of a container image; UsageError for a backend whose nodes are not containers."""
    if isinstance(backend(name), ContainerlabBackend):
        return ContainerlabBackend(image)
    raise UsageError(f"nodes of backend {name} are of no image", f"--backend {ContainerlabBackend.name} has them")
