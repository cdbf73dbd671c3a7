"""The live view: samples are read as they come, and the tables drawn twice a second."""

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
    """A fabric as it runs; ``source`` is where its sampler writes to. ``error`` says why it ended by itself."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "hold", "hold still")]

    def __init__(self, film: LiveFilm, source: int, sort: str = "tx_bps") -> None:
        super().__init__(film, sort)
        self._live = film
        self._source = source
        self._held = False
        self.error: OperationFailed | None = None
        self.ended = False
        """Whether the samples ended before anybody left."""

    def on_mount(self) -> None:
        """Read from now on."""
        super().on_mount()
        os.set_blocking(self._source, False)
        asyncio.get_running_loop().add_reader(self._source, self._read)
        self.set_interval(_SHOWN_EVERY, self._renew)

    def headline(self) -> str:
        """Whose samples these are, and how long they have come."""
        held = "  held still" if self._held else ""
        return f"{self.film.name}  {(self.at - self.film.start) / _NS:.1f} s{of_time(self.film.time)}{held}"

    def action_hold(self) -> None:
        """Draw no more, or go on."""
        self._held = not self._held
        self.show()

    def _renew(self) -> None:
        if not self._held:
            self.at = self._live.end
            for sheet in SHEETS:  # also what is not seen has a history
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
