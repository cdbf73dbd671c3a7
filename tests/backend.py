"""The backend of the tests with the marker ``backends``: ``pytest --backend NAME``."""

from __future__ import annotations

import os
from typing import Final

from lab.backends import registry

_CHOSEN: Final = "ROCELAB_TEST_BACKEND"
_PATIENCE: Final = 1200.0
"""Seconds for ``up`` where Docker starts the nodes."""


def choose(name: str) -> None:
    """For this session."""
    os.environ[_CHOSEN] = name


def chosen() -> str:
    """Its name."""
    return os.environ.get(_CHOSEN, registry.DEFAULT)


def has_others() -> bool:
    """Whether programs of others run beside a fabric: Docker's, and those that watch FRR in each container."""
    return chosen() != registry.DEFAULT


def words(*command: str) -> tuple[str, ...]:
    """The words of a rocelab command; ``up`` gets the backend when it is not the usual one."""
    if command[:1] != ("up",) or "--backend" in command or chosen() == registry.DEFAULT:
        return command
    return (*command, "--backend", chosen(), "--timeout", f"{_PATIENCE / 2:.0f}")


def patience(usual: float) -> float:
    """Seconds to wait for a command."""
    return usual if chosen() == registry.DEFAULT else max(usual, _PATIENCE)
