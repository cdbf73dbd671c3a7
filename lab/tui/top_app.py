"""The live view: reads samples as they arrive, and redraws the tables twice a second."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType

from lab.errors import OperationFailed
from lab.kernel.process.time_source import of_time
from lab.telemetry.read.dashboard import SHEETS
from lab.tui.viewer import Viewer

if TYPE_CHECKING:
    from lab.telemetry.read.timeline_frames import LiveFilm

_NS: Final = 10**9
_SHOWN_EVERY: Final = 0.5
_CHUNK: Final = 1 << 16


class Top(Viewer):
    """A running fabric; ``source`` is the output of its sampler. ``error`` is set if it ended by itself."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "hold", "hold still")]

    def __init__(self, film: LiveFilm, source: int, sort: str = "tx_bps") -> None:
        super().__init__(film, sort)
        self._live = film
        self._source = source
        self._held = False
        self.error: OperationFailed | None = None
        self.ended = False
        """Whether the samples ended before the user quit."""

    def on_mount(self) -> None:
        """Start to read samples."""
        super().on_mount()
        os.set_blocking(self._source, False)
        asyncio.get_running_loop().add_reader(self._source, self._read)
        self.set_interval(_SHOWN_EVERY, self._renew)

    def headline(self) -> str:
        """Return the fabric's name, and the time since the first sample."""
        held = "  held still" if self._held else ""
        return f"{self.film.name}  {(self.at - self.film.start) / _NS:.1f} s{of_time(self.film.time)}{held}"

    def action_hold(self) -> None:
        """Pause or resume drawing."""
        self._held = not self._held
        self.show()

    def _renew(self) -> None:
        if not self._held:
            self.at = self._live.end
            for sheet in SHEETS:  # hidden sheets have a history, too
                self._live.look(sheet, self.at)
            self.show()

    def _read(self) -> None:
        data = os.read(self._source, _CHUNK)
        try:
            self._live.feed(data)
        except OperationFailed as error:
            self.error = error
        if not data or self.error:
            asyncio.get_running_loop().remove_reader(self._source)
            self.ended = True
            self.exit()
