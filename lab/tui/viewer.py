"""The tables of ``rocelab top`` and ``rocelab replay``: ports, devices, sessions, QPs, jobs and transfers."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static, TabbedContent, TabPane

from lab.telemetry.read.dashboard import DEVICES, PORTS, SHEETS
from lab.terminal_text import printable
from lab.tui import cells
from lab.tui.history import History
from lab.tui.table import Lines
from lab.units import format_rate

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from lab.telemetry.read.dashboard import QueuePairState, SessionStanding, Sheet
    from lab.telemetry.read.timeline_frames import Film

_NS: Final = 10**9
SESSIONS: Final = ("session", "protocol", "state", "for", "changes")
QUEUE_PAIRS: Final = ("QP", "type", "state", "to QP", "of", "limited to", "seen for")
_TITLES: Final = {
    PORTS.name: "Ports", DEVICES.name: "RDMA", "sessions": "Sessions", "qps": "QPs", "jobs": "Jobs",
    "transfers": "Transfers",
}  # fmt: skip
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Viewer(App[None]):
    """Shows a film at the time ``at``; subclasses set it and call ``show``."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #line { height: 1; background: $primary-background; padding: 0 1; }
    #told { height: auto; max-height: 4; padding: 0 1; color: $text-muted; }
    TabbedContent { height: 1fr; }
    Lines { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "quit"),
        Binding("ctrl+c", "leave", "quit", show=False, priority=True),
        Binding("1", "tab('ports')", "ports"),
        Binding("2", "tab('devices')", "RDMA"),
        Binding("3", "tab('sessions')", "sessions"),
        Binding("4", "tab('qps')", "QPs"),
        Binding("5", "tab('jobs')", "jobs"),
        Binding("6", "tab('transfers')", "transfers"),
    ]

    def __init__(self, film: Film, sort: str = "tx_bps") -> None:
        """``sort`` is the measure by which ports are sorted at first, or ``port``."""
        super().__init__()
        self.film = film
        self.at = film.end
        names = ["port", *(measure.name for measure in PORTS.measures)]
        self._sort_by = names.index(sort)

    def compose(self) -> ComposeResult:
        """Compose the headline, the tables, the recent events, and the keys."""
        yield Static(id="line", markup=False)
        with TabbedContent(initial=PORTS.name):
            for sheet in SHEETS:
                titles = ("port" if sheet is PORTS else "device", *(measure.title for measure in sheet.measures))
                by = self._sort_by if sheet is PORTS else 1
                with TabPane(_TITLES[sheet.name], id=sheet.name):
                    yield Lines(titles, sort_by=by, descending=by > 0, id=f"{sheet.name}-lines")
            with TabPane(_TITLES["sessions"], id="sessions"):
                yield Lines(SESSIONS, id="sessions-lines")
            with TabPane(_TITLES["qps"], id="qps"):
                yield Lines(QUEUE_PAIRS, id="qps-lines")
            with TabPane(_TITLES["jobs"], id="jobs"):
                yield Lines(cells.JOB_RANKS, id="jobs-lines")
            with TabPane(_TITLES["transfers"], id="transfers"):
                yield Lines(cells.REQUESTERS, id="transfers-lines")
        yield Static(id="told", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Handle termination signals like the quit key, so that the terminal is restored."""
        loop = asyncio.get_running_loop()
        for number in _ENDING if not self.is_headless else ():
            loop.add_signal_handler(number, self.action_leave)
        self.show()
        self.query_one(f"#{PORTS.name}-lines").focus()

    def show(self) -> None:
        """Draw the tables at the time ``at``."""
        self.query_one("#line", Static).update(printable(self.headline()))
        self.query_one("#told", Static).update(printable(self.told()))
        open_ = self.query_one(TabbedContent).active
        for sheet in SHEETS:
            if sheet.name == open_:
                self._show_sheet(sheet)
        if open_ == "sessions":
            self._show_told("sessions", [self._session(each) for each in self.film.standings(self.at)])
        if open_ == "qps":
            self._show_told("qps", [self._queue_pair(each) for each in self.film.queue_pairs(self.at)])
        if open_ == "jobs":
            self._show_told("jobs", [cells.job_rank(each) for each in self.film.job_ranks(self.at)])
        if open_ == "transfers":
            self._show_told("transfers", [cells.requester(each) for each in self.film.requesters(self.at)])
        if isinstance(self.screen, History):
            self.screen.show(self.at)

    def headline(self) -> str:
        """Return the headline."""
        return self.film.name

    def told(self) -> str:
        """Return recent events."""
        return ""

    def action_tab(self, name: str) -> None:
        """Switch to a table, also from a history."""
        if isinstance(self.screen, History):
            self.pop_screen()
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name}-lines").focus()

    def action_leave(self) -> None:
        """Quit."""
        self.exit()

    def on_tabbed_content_tab_activated(self) -> None:
        """Draw the table that becomes visible."""
        self.show()

    def on_lines_sorted(self) -> None:
        """Redraw the lines in the new order."""
        self.show()

    def on_lines_asked(self, asked: Lines.Asked) -> None:
        """Open the history of a port or device; sessions and queue pairs have none."""
        for sheet in SHEETS:
            if self.query_one(TabbedContent).active == sheet.name:
                self.push_screen(History(self.film, sheet, asked.name, self.at))

    def _show_sheet(self, sheet: Sheet) -> None:
        lines = self.query_one(f"#{sheet.name}-lines", Lines)
        look = self.film.look(sheet, self.at)
        lines.show(cells.rows(look, lines.sort_by, descending=lines.descending))

    def _show_told(self, name: str, told: list[tuple[str, ...]]) -> None:
        lines = self.query_one(f"#{name}-lines", Lines)
        told.sort(key=lambda line: cells.natural(line[lines.sort_by]), reverse=lines.descending)
        lines.show(told)

    def _session(self, standing: SessionStanding) -> tuple[str, ...]:
        name = f"{standing.node}:{standing.interface} {standing.protocol}"
        return (
            name,
            standing.protocol,
            standing.state,
            self._lasts(standing.since, exact=standing.exact),
            str(standing.changes),
        )

    def _queue_pair(self, standing: QueuePairState) -> tuple[str, ...]:
        name, remote = f"{standing.node}:{standing.interface} {standing.qpn}", standing.remote
        far = "" if remote is None else str(remote)
        limit = "" if standing.rate is None else format_rate(standing.rate)
        return name, standing.kind, standing.state, far, standing.program, limit, self._lasts(standing.since)

    def _lasts(self, since: int, *, exact: bool = True) -> str:
        """Return for how long a state has lasted at the shown time; ``> `` if its start is unknown."""
        return f"{'' if exact else '> '}{max(0, self.at - since) / _NS:.1f} s"
