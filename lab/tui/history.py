"""The history of one port: a bar chart of each measure that was ever not 0, and a table, the latest values first."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from lab.kernel.process.time_source import of_time
from lab.terminal_text import printable
from lab.tui.cells import cell
from lab.tui.table import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from lab.telemetry.read.dashboard import Sheet
    from lab.telemetry.read.timeline_frames import Film

_NS: Final = 10**9
MOST: Final = 240
"""Maximum number of samples shown."""


_BARS: Final = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float], width: int) -> str:
    """Return values as bars on a line of at most ``width``: 0 is the lowest bar, the highest value a full one.

    If there are more values than columns, neighbours share a bar, which shows the highest of them.
    """
    count = min(len(values), width)
    edges = [len(values) * place // count for place in range(count + 1)] if count else []
    highest = [max(values[start:end]) for start, end in pairwise(edges)]
    top = max(highest, default=0.0)
    return "".join(_BARS[int(max(0.0, value) / top * (len(_BARS) - 1))] if top > 0 else _BARS[0] for value in highest)


class Curve(Widget):
    """A line of bars."""

    def plot(self, values: Sequence[float]) -> None:
        """Show these values, the oldest first."""
        self._values = values
        self.refresh()

    def render(self) -> Text:
        """Render as many bars as fit."""
        return Text(bars(self._values, self.size.width))

    _values: Sequence[float] = ()


class History(Screen[None]):
    """The history of one line of a sheet, up to a time."""

    CSS = """
    .curve { height: 1; }
    .curve Static { width: 28; padding: 0 1; }
    .curve Curve { width: 1fr; height: 1; color: $success; }
    #of { height: 1; background: $primary-background; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,h,backspace", "close", "back")]

    def __init__(self, film: Film, sheet: Sheet, name: str, at: int) -> None:
        super().__init__()
        self._film, self._sheet, self.of, self._at = film, sheet, name, at

    def compose(self) -> ComposeResult:
        """Compose the bars, and the table of values below them."""
        of = of_time(self._film.time)
        order = f"the latest first{', seconds' if of else ''}{of}"
        yield Static(f"{printable(self.of)}, {order}", id="of", markup=False)
        for measure in self._sheet.measures:
            with Horizontal(classes="curve", id=f"curve-{measure.name}"):
                yield Static(measure.title, markup=False)
                yield Curve()
        yield Lines(("at", *(measure.title for measure in self._sheet.measures)), descending=True, id="past-lines")
        yield Footer()

    def on_mount(self) -> None:
        """Show the history up to the initial time."""
        self.show(self._at)
        self.query_one("#past-lines").focus()

    def show(self, at: int) -> None:
        """Show the history up to a time."""
        self._at = at
        looks = self._film.history(self._sheet, at, MOST)
        values = np.array([list(look.of(self.of).values()) for look in looks]).reshape(len(looks), -1)
        for number, measure in enumerate(self._sheet.measures):
            curve = self.query_one(f"#curve-{measure.name}", Horizontal)
            past = np.nan_to_num(values[::-1, number])
            curve.display = bool(past.any())
            curve.query_one(Curve).plot(past.tolist())
            most = cell(measure, float(past.max(initial=0)))
            curve.query_one(Static).update(f"{measure.title}, at most {most}")
        told = [
            (f"{(look.ns - self._film.start) / _NS:.3f} s",
             *(cell(measure, value) for measure, value in zip(self._sheet.measures, line, strict=True)))
            for look, line in zip(looks, values.tolist(), strict=True)
        ]  # fmt: skip
        self.query_one("#past-lines", Lines).show(told)

    def on_lines_sorted(self, message: Lines.Sorted) -> None:
        """Ignore the requested order: a history is sorted by time."""
        message.stop()
        self.show(self._at)

    def on_lines_asked(self, message: Lines.Asked) -> None:
        """Ignore the request: a line of a history has no details."""
        message.stop()

    def action_close(self) -> None:
        """Return to the tables."""
        self.dismiss()
