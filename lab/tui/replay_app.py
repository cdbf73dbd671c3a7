"""Replay of a recording in the tables of the live view: any speed, both directions, single steps."""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType

from lab.kernel.process.time_source import of_time
from lab.tui.playhead import Playhead, marks_of
from lab.tui.viewer import Viewer

if TYPE_CHECKING:
    from lab.telemetry.read.timeline_frames import RecordedFilm

_NS: Final = 10**9
_SHOWN_EVERY: Final = 0.1
_LATELY: Final = 3
"""Number of marks shown below the tables."""


class Replay(Viewer):
    """Plays a recording; ``head`` is its position."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "play", "play/pause"),
        Binding("b", "turn", "backwards"),
        Binding("plus,equals_sign", "faster(2)", "faster", key_display="+"),
        Binding("minus", "faster(0.5)", "slower", key_display="-"),
        Binding("full_stop", "step(1)", "step", key_display="."),
        Binding("comma", "step(-1)", "step back", key_display=","),
        Binding("right_square_bracket", "phase(1)", "phase", key_display="]"),
        Binding("left_square_bracket", "phase(-1)", "phase back", key_display="["),
        Binding("n", "event(1)", "event"),
        Binding("p", "event(-1)", "event back"),
    ]

    def __init__(self, film: RecordedFilm, sort: str = "tx_bps", *, at: float = 0.0, speed: float = 1.0) -> None:
        """``at`` is the start position, in seconds of the recording."""
        super().__init__(film, sort)
        self._film = film
        self._zero = film.recording.clock.start
        self.head = Playhead(film.start, film.end, film.start, speed=speed)
        self.head.put(self._zero + round(at * _NS))
        self._marks = marks_of(film.recording)
        self.at = self.head.at
        self._passed = time.monotonic()

    @property
    def moments(self) -> list[int]:
        """The times of all marks, in ns of CLOCK_MONOTONIC."""
        return [mark.ns for mark in self._marks]

    def on_mount(self) -> None:
        """Start to play."""
        super().on_mount()
        self.set_interval(_SHOWN_EVERY, self._go_on)

    def headline(self) -> str:
        """Return the position, phase and speed."""
        phases = [mark.text for mark in self._marks if mark.phase and mark.ns <= self.at]
        way = "◀" if self.head.backwards else "▶"
        moves = f"{way} x{self.head.speed:g}" if self.head.playing else f"‖ x{self.head.speed:g}"
        at, length = (self.at - self._zero) / _NS, (self.head.end - self._zero) / _NS
        incomplete = f"  incomplete: {self._film.recording.why}" if self._film.recording.incomplete else ""
        where = f"{at:.3f} s of {length:.3f} s{of_time(self.film.time)}"
        return f"{self.film.name}  {where}  {moves}  {phases[-1] if phases else ''}{incomplete}"

    def told(self) -> str:
        """Return the last marks before the position."""
        past = self._marks[: bisect_right(self._marks, self.at, key=lambda mark: mark.ns)]
        return "\n".join(f"{(mark.ns - self._zero) / _NS:9.3f} s  {mark.text}" for mark in past[-_LATELY:])

    def action_play(self) -> None:
        """Play or pause."""
        self.head.toggle()
        self._draw()

    def action_turn(self) -> None:
        """Change the direction."""
        self.head.backwards = not self.head.backwards
        self._draw()

    def action_faster(self, factor: float) -> None:
        """Change the speed."""
        self.head.faster(factor)
        self._draw()

    def action_step(self, by: int) -> None:
        """Step to the next or previous sample."""
        self.head.jump(self._film.times.tolist(), by)
        self._draw()

    def action_phase(self, by: int) -> None:
        """Jump to the beginning of the next or previous phase."""
        self.head.jump([mark.ns for mark in self._marks if mark.phase], by)
        self._draw()

    def action_event(self, by: int) -> None:
        """Jump to the next or previous mark."""
        self.head.jump(self.moments, by)
        self._draw()

    def _go_on(self) -> None:
        now = time.monotonic()
        passed, self._passed = now - self._passed, now
        if self.head.playing:
            self.head.advance(passed)
            self._draw()

    def _draw(self) -> None:
        self.at = self.head.at
        self.show()
