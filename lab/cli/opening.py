"""How commands come by a running fabric: they wait for one that is being changed, and say for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.backends import lifecycle
from lab.cli.output import stderr

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.backends.base import Fabric


def tell(holder: str) -> None:
    """Say who is waited for."""
    stderr.print(f"waiting for {holder}", markup=False, highlight=False, soft_wrap=True)


def open_fabric(name: str | None) -> Fabric:
    """``lifecycle.open_fabric`` for somebody who watches."""
    return lifecycle.open_fabric(name, tell)


def reading(name: str | None) -> AbstractContextManager[Fabric]:
    """``lifecycle.reading`` for somebody who watches."""
    return lifecycle.reading(name, tell)
