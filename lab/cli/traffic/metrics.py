"""``rocelab metrics``: the counters of a fabric for Prometheus, under the names of real exporters.

The server runs on the host, and the counters are read where the fabric runs: ``metrics serve --stream`` answers each
line of its input, the name of a format, with the size of the text, a newline, and the text.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.kit.child_command import child_command
from lab.cli.kit.complete import FabricOption
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.errors import OperationFailed
from lab.telemetry.metrics.metrics_format import MetricsFormat

if TYPE_CHECKING:
    from lab.cli.kit.child_command import ChildCommand
    from lab.telemetry.metrics.live_metrics import LiveMetrics
    from lab.telemetry.metrics.metric_families import MetricFamily

app = typer.Typer(no_args_is_help=True, help="Export counters to Prometheus, under the names of real exporters.")

DEFAULT_PORT: Final = 9879
"""The port of rdma_exporter."""
_SCRAPE: Final = 20.0
"""Seconds for a scrape, also in a busy VM."""
_START: Final = 300.0
"""Seconds for the first scrape, for which the VM may have to be started."""
_CHUNK: Final = 1 << 16
_LOOK: Final = 1.0
_COLUMNS: Final = ("family", "type", "unit", "exporter", "of", "counter")


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on the loopback; 0 chooses a free one.")] = (
        DEFAULT_PORT
    ),
    fabric: FabricOption = None,
    stream: Annotated[bool, typer.Option("--stream", hidden=True)] = False,
) -> None:
    """Serve the metrics of a fabric at http://127.0.0.1:9879/metrics until Ctrl-C."""
    from lab.telemetry.metrics.live_metrics import LiveMetrics  # noqa: PLC0415 - NumPy, for which --help does not wait
    from lab.telemetry.metrics.metrics_server import MetricsServer  # noqa: PLC0415

    if stream:
        with LiveMetrics(open_fabric(fabric)) as metrics:
            _answer(metrics)
        return
    named = ["--fabric", fabric] if fabric else []
    server = MetricsServer(port)
    with child_command("metrics", "serve", "--stream", *named) as reader, server:
        _ask(reader, MetricsFormat.TEXT, _START)  # before the URL is printed: it fails without a fabric
        with ends_on_signals(server.stop):
            stdout.print(f"serving {server.url}; Ctrl-C ends it", highlight=False, soft_wrap=True)
            server.run(lambda form: _ask(reader, form), lambda: _check(reader))


@app.command("print")
def print_(
    form: Annotated[
        MetricsFormat, typer.Option("--format", help="OpenMetrics, or the older text format of Prometheus.")
    ] = MetricsFormat.OPENMETRICS,
    fabric: FabricOption = None,
) -> None:
    """Print the metrics of a fabric once."""
    from lab.telemetry.metrics.exposition import render  # noqa: PLC0415 - as above
    from lab.telemetry.metrics.live_metrics import LiveMetrics  # noqa: PLC0415

    with LiveMetrics(open_fabric(fabric)) as metrics:
        sys.stdout.write(render(metrics.scrape(), form).decode())


@app.command("ls")
def list_(as_json: JsonFlag = False) -> None:
    """List all metric families with the counters behind them."""
    from lab.telemetry.metrics.metric_families import FAMILIES  # noqa: PLC0415

    if as_json:
        print_json([_as_data(family) for family in FAMILIES])
        return
    rows = [
        (each.name, each.kind.value, each.unit, each.exporter, each.owner.value, each.behind) for each in FAMILIES
    ]
    stdout.print(table("metric families", _COLUMNS, rows))


def _as_data(family: MetricFamily) -> dict[str, Any]:
    return {
        "name": family.name,
        "type": family.kind.value,
        "unit": family.unit,
        "exporter": family.exporter,
        "of": family.owner.value,
        "labels": list(family.label_names),
        "counter": family.behind,
        "help": family.help,
    }


def _answer(metrics: LiveMetrics) -> None:
    """Answer requests on standard input until it ends. OperationFailed once the fabric was taken down."""
    from lab.telemetry.metrics.exposition import render  # noqa: PLC0415 - as above

    ready = select.poll()
    ready.register(0, select.POLLIN)
    while True:
        if not ready.poll(_LOOK * 1000):
            metrics.require_live()
            continue
        asked = os.read(0, _CHUNK)
        if not asked:
            return
        for form in asked.decode().split():
            body = render(metrics.scrape(), MetricsFormat(form))
            _write(b"%d\n%b" % (len(body), body))


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


def _ask(reader: ChildCommand, form: MetricsFormat, timeout: float = _SCRAPE) -> bytes:
    """Return a scrape of the reader. Exits with the reader's error if it has ended; OperationFailed on a timeout."""
    reader.stream.settimeout(timeout)
    try:
        reader.stream.sendall(f"{form}\n".encode())
        found = bytearray()
        while (end := found.find(b"\n")) < 0 or len(found) < end + 1 + int(found[:end]):
            data = reader.stream.recv(_CHUNK)
            if not data:
                reader.report_end()
            found += data
    except TimeoutError as error:
        raise OperationFailed(f"the fabric did not answer within {timeout:g} s", "rocelab status") from error
    except OSError:
        reader.report_end()
    return bytes(found[end + 1 :])


def _check(reader: ChildCommand) -> None:
    """Exit with the reader's error if it has ended: it writes only when asked."""
    ready = select.poll()
    ready.register(reader.stream, select.POLLIN)
    if ready.poll(0):
        reader.report_end()
