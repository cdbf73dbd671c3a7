"""A table with changing lines: the cursor stays on its line, or at the top if it was there."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.widgets import DataTable

from lab.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


class Lines(DataTable[Text]):
    """A table that is updated regularly; the first column is the unique name of a line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "sort by column"),
        Binding("h,enter", "history", "history"),
    ]

    class Sorted(Message):
        """The user chose another column or direction of sorting."""

    class Asked(Message):
        """The user asked for the history of the line of this name."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, titles: Sequence[str], *, sort_by: int = 0, descending: bool = False, id: str) -> None:  # noqa: A002
        super().__init__(id=id, cursor_type="cell", zebra_stripes=True, fixed_columns=1)
        self.titles = tuple(titles)
        self.sort_by = sort_by
        self.descending = descending
        self._shown: list[tuple[str, ...]] = []
        self._place = ("", Coordinate(0, 0))

    def on_mount(self) -> None:
        """Draw the header."""
        self._head()

    def show(self, lines: Sequence[tuple[str, ...]]) -> None:
        """Show these lines; unchanged cells are not redrawn."""
        if [line[0] for line in lines] == [line[0] for line in self._shown]:
            for row, (line, before) in enumerate(zip(lines, self._shown, strict=True)):
                for column, (text, old) in enumerate(zip(line, before, strict=True)):
                    if text != old:
                        self.update_cell_at(Coordinate(row, column), _cell(text, column), update_width=True)
        else:
            self._replace(lines)
        self._shown = list(lines)

    @property
    def chosen(self) -> str:
        """The name of the line at the cursor; "" without lines."""
        return self._shown[self.cursor_row][0] if 0 <= self.cursor_row < len(self._shown) else ""

    @property
    def lines(self) -> Sequence[tuple[str, ...]]:
        """The lines shown, in order."""
        return self._shown

    def action_sort(self) -> None:
        """Sort by the column of the cursor; reverse the order if sorted by it already."""
        self._sort(self.cursor_column)

    def action_history(self) -> None:
        """Request the history of the line at the cursor."""
        if self.chosen:
            self.post_message(self.Asked(self.chosen))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the title that was clicked."""
        self._sort(event.column_index)

    def _sort(self, column: int) -> None:
        again = column == self.sort_by
        self.descending = not self.descending if again else column > 0
        self.sort_by = column
        self._head()
        self.post_message(self.Sorted())

    def _head(self) -> None:
        self._place = (self.chosen, self.cursor_coordinate)
        self.clear(columns=True)
        self._shown = []
        for number, title in enumerate(self.titles):
            arrow = ("▼" if self.descending else "▲") if number == self.sort_by else " "
            self.add_column(Text(f"{title} {arrow}", justify="right" if number else "left"), key=str(number))

    def _replace(self, lines: Sequence[tuple[str, ...]]) -> None:
        held, at = (self.chosen, self.cursor_coordinate) if self._shown else self._place
        self.clear()
        for line in lines:
            self.add_row(*(_cell(text, column) for column, text in enumerate(line)), key=line[0])
        names = [line[0] for line in lines]
        row = names.index(held) if at.row and held in names else at.row
        self.move_cursor(row=min(row, max(0, len(names) - 1)), column=at.column, scroll=bool(at.row))


def _cell(text: str, column: int) -> Text:
    return Text(printable(text), justify="right" if column else "left")
