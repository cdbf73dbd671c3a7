"""``rocelab live``: a running fabric in the browser. The page is served here, the fabric sampled where it runs.

``live --stream`` writes the topology as a line of JSON, then the sampler's log. So the VM needs no network.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lab.cli.command_line import global_options
from lab.cli.kit.child_command import PROGRAM, child_command
from lab.cli.kit.complete import FabricOption, fabric_names
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, JsonStream, print_note, stdout
from lab.errors import OperationFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.cli.kit.child_command import ChildCommand
    from lab.live.live_feed import LiveFeed
    from lab.live.live_recording import LiveRecording
    from lab.live.live_server import LiveServer
    from lab.live.update_ring import UpdateRing
    from lab.model.topology import Topology

MOST_HZ: Final = 50.0
_CHUNK: Final = 1 << 18
_LONGEST: Final = 1 << 24
"""Maximum size of the topology, in bytes."""
_LOOK: Final = 0.25
"""Seconds between two checks of the recording."""
_MOST_ASKED: Final = 16
"""Maximum number of requests of pages that wait for the reading thread."""
_ENDED: Final = "The fabric was taken down, or its samples ended"
_STOPPED: Final = "rocelab live was stopped"


def live(
    name: Annotated[
        str | None,
        typer.Argument(metavar="FABRIC", help="The fabric, if several run.", autocompletion=fabric_names),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on the loopback; 0 chooses a free one.")] = 0,
    hz: Annotated[float, typer.Option(help="Samples of all counters per second.")] = 10.0,
    record: Annotated[bool, typer.Option("--record", help="Record the fabric from the start, until Ctrl-C.")] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
    stream: Annotated[bool, typer.Option("--stream", hidden=True)] = False,
) -> None:
    """Show a running fabric in the browser: pauses, queues, rates, queue pairs, sessions and jobs. Ctrl-C ends it.

    The page can be rewound to any moment since it was opened, and can record the fabric. Its URL is valid once.
    """
    wanted = fabric or name
    if fabric and name and fabric != name:
        raise UsageError(f"{name} and {fabric} are different fabrics", "name one")
    if not 1 <= hz <= MOST_HZ:
        raise UsageError(f"--hz {hz:g} is out of range", f"choose 1 to {MOST_HZ:g}")
    if stream:
        _stream(wanted, hz)
    else:
        _Live(wanted, port, hz).run(record=record, as_json=as_json)


def _stream(wanted: str | None, hz: float) -> None:
    from lab.backends import recorders  # noqa: PLC0415 - NumPy, for which --help does not wait
    from lab.model import store  # noqa: PLC0415
    from lab.telemetry.sample.stream_samples import write_samples  # noqa: PLC0415

    running = open_fabric(wanted)
    with recorders.viewing(running.state) as view:
        sys.stdout.write(json.dumps({"topology": store.dump(running.topology)}) + "\n")
        sys.stdout.flush()
        write_samples(running, hz, sys.stdout.fileno(), view)


class _Live:
    """The command: reads samples in this thread, while the server's threads answer the pages."""

    def __init__(self, wanted: str | None, port: int, hz: float) -> None:
        from lab.live.live_feed import LiveFeed  # noqa: PLC0415 - NumPy, for which --help does not wait
        from lab.live.live_server import LiveServer  # noqa: PLC0415
        from lab.live.update_ring import UpdateRing  # noqa: PLC0415

        self._named = ["--fabric", wanted] if wanted else []
        self._hz = hz
        self._ring: UpdateRing = UpdateRing()
        self._feed: LiveFeed = LiveFeed(self._ring)
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._server: LiveServer = LiveServer(port, self._ring, self._feed.snapshot, self._ask, self._opened)
        self._as_json = False

    def run(self, *, record: bool, as_json: bool) -> None:
        """Serve until Ctrl-C. Exits with the error of the command that samples the fabric, if that ends."""
        from lab.live.live_page import live_page  # noqa: PLC0415 - as above
        from lab.live.live_recording import LiveRecording  # noqa: PLC0415

        self._as_json = as_json
        with child_command("live", "--stream", "--hz", f"{self._hz:g}", *self._named) as sampler:
            topology = self._begin(sampler)
            recording = LiveRecording(self._feed.name, self._ring, self._command, self._note)
            why = _ENDED
            with recording, ends_on_signals(lambda: self._ask("")), contextlib.ExitStack() as ending:
                self._server.begin(*live_page(topology, self._feed.name, self._hz, self._feed.time))
                ending.callback(lambda: self._server.end(why))
                ending.callback(recording.end)
                self._say(self._server.url)
                if record:
                    recording.act("start")
                why = _ENDED if self._watch(sampler, recording) else _STOPPED
            if why == _ENDED:
                sampler.report_end()

    def _begin(self, sampler: ChildCommand) -> Topology:
        """Read the topology and the first sample."""
        from lab.model import store  # noqa: PLC0415 - as above

        found = b""
        while b"\n" not in found:
            data = sampler.stream.recv(_CHUNK)
            if not data:
                sampler.report_end()
            found += data
            if len(found) > _LONGEST:
                raise OperationFailed("the fabric's topology cannot be read", "rocelab status")
        line, _, rest = found.partition(b"\n")
        self._feed.feed(rest)
        while not self._feed.begun:
            data = sampler.stream.recv(_CHUNK)
            if not data:
                sampler.report_end()
            self._feed.feed(data)
        try:
            return store.restore(json.loads(line)["topology"])
        except (ValueError, LookupError, TypeError) as error:
            raise OperationFailed("the fabric's topology cannot be read", "rocelab status") from error

    def _watch(self, sampler: ChildCommand, recording: LiveRecording) -> bool:
        """Pass samples on until a signal, or until they end; return whether they ended."""
        ready = select.poll()
        ready.register(sampler.stream, select.POLLIN)
        ready.register(self._wakes, select.POLLIN)
        while True:
            for descriptor, _ in ready.poll(_LOOK * 1000):
                if descriptor == self._wakes:
                    os.read(self._wakes, 1 << 10)
                    continue
                data = sampler.stream.recv(_CHUNK)
                if not data:
                    return True
                self._feed.feed(data)
            while not self._asked.empty():
                if not (what := self._asked.get()):
                    return False
                recording.act(what)
            recording.look()

    def _ask(self, what: str) -> None:
        """Have the reading thread do something; may be called in a signal handler and from any thread."""
        if not what or self._asked.qsize() < _MOST_ASKED:
            self._asked.put(what)
            with contextlib.suppress(BlockingIOError):  # it is woken already
                os.write(self._wake, b".")

    def _command(self, words: Sequence[str]) -> list[str]:
        return [*PROGRAM, *global_options(), "record", *words, "--fabric", self._feed.name, "--json"]

    def _opened(self, url: str) -> None:
        with contextlib.suppress(OSError, SystemExit):  # nobody reads the output: the page is served nevertheless
            self._say(url, "The page was opened. For another browser: ")

    def _say(self, url: str, before: str = "open ") -> None:
        if self._as_json:
            JsonStream.begun = True
            sys.stdout.write(json.dumps({"fabric": self._feed.name, "url": url}) + "\n")  # an object a line
            sys.stdout.flush()
        else:
            self._print(f"{before}{url}{'; Ctrl-C ends it' if before == 'open ' else ''}")

    def _note(self, line: str) -> None:
        """Print what became of a recording; with --json on standard error."""
        (print_note if self._as_json else self._print)(line)

    def _print(self, line: str) -> None:
        stdout.print(line, markup=False, highlight=False, soft_wrap=True)
