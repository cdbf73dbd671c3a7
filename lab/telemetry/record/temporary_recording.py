"""Record a window of a running fabric into a temporary recording, which the caller deletes."""

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
    *,
    audited: bool = False,
) -> str:
    """Record a fabric into a directory for ``seconds``; return the name of the phase that is the window.

    ``meanwhile`` runs something during the window; its startup time is part of the window. State and configuration
    are recorded at the beginning, with ``audited`` all settings, too. Raises like ``Recorder``.
    """
    with Recorder.begin(path, fabric, audited=audited) as recorder:
        recorder.phase(_NAME)
        with meanwhile(recorder) if meanwhile else contextlib.nullcontext():
            time.sleep(seconds)
        recorder.with_state = False  # nobody reads the state after the window, and reading it takes seconds
        recorder.phase("")
    return _NAME
