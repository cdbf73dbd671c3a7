"""How long tests wait for what has to come. No test judges it: where it runs out, nothing comes any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.rdma import sysfs

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE: Final = 240.0
"""Seconds: a disk that is busy with others' gigabytes holds a file system's journal for tens of them."""


def until(condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
    """Wait for what has no event to wait for."""
    assert sysfs.until(condition, timeout), "it did not come about"
