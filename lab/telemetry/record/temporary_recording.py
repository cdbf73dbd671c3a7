"""A window of a running fabric, recorded: what is looked at once, and then thrown away."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from lab.telemetry.record.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lab.backends.backend import Fabric

_NAME: Final = "window"


def record_window(
    fabric: Fabric,
    path: Path,
    seconds: float,
    meanwhile: Callable[[Recorder], AbstractContextManager[None]] | None = None,
) -> str:
    """Record a fabric into a directory for so long; returns what the phase is called that is the window.

    ``meanwhile`` makes something happen in it, and what that takes to begin is of the window, too. State and
    configuration are those of its beginning. Errors as of ``Recorder``.
    """
    with Recorder.begin(path, fabric) as recorder:
        recorder.phase(_NAME)
        with meanwhile(recorder) if meanwhile else contextlib.nullcontext():
            time.sleep(seconds)
        recorder.with_state = False  # nobody reads what it is afterwards, and asking all routers takes seconds
        recorder.phase("")
    return _NAME
