"""The backends by name."""

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
    """Return the backend called ``name``; UsageError lists the backends."""
    if name not in _BACKENDS:
        raise UsageError(f"no backend {name}", f"there is {', '.join(_BUILDING)}")
    return _BACKENDS[name]()


def of_image(name: str, image: str) -> Backend:
    """Return the backend called ``name`` with containers of ``image``; UsageError if it has no containers."""
    if isinstance(backend(name), ContainerlabBackend):
        return ContainerlabBackend(image)
    raise UsageError(f"nodes of backend {name} are of no image", f"--backend {ContainerlabBackend.name} has them")
