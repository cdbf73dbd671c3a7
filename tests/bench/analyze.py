"""How fast the QP table of a capture is made, next to tshark and scapy on the same file, in one run.

    ./scripts/bench analyze [--json] [--packets N]

rocelab and tshark are timed as processes, from start to end; tshark only prints four fields of each packet. scapy
reads the first packets of the file, and its rate is what counts. Packets by QP have to be the same for both.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from scapy.utils import PcapNgReader

from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.cli.kit.output import stderr, stdout, table
from lab.errors import LabError, OperationFailed
from lab.kernel.process.process import find_tool, run
from lab.units import format_size
from lab.wire.rocev2 import BTH
from tests.bench.traffic import flood, generate

PACKETS = 1_000_000
SCAPY_PACKETS = 10_000
_REPEAT = 3
"""Times that rocelab reads it, for the median: a run of a second is at the mercy of what else runs."""
WEIGHED = """
import atexit, re, runpy, sys
def tell():
    with open("/proc/self/status", encoding="ascii") as status:
        kept = dict(re.findall(r"^(VmHWM|RssFile):\\s+(\\d+) kB$", status.read(), re.MULTILINE))
    sys.stderr.write(str(int(kept["VmHWM"]) - int(kept["RssFile"])))
atexit.register(tell)
runpy.run_module("lab", run_name="__main__")
"""
"""rocelab, which says last how many KiB of its own it had at most: getrusage(2) would say what its parent had.

Pages of programs and libraries are the page cache's. Around each that is read the kernel maps as many as it has at
hand: 16 MB of them natively, and 22 MB of the same in the VM. All are mapped by the time it ends.
"""
FIELDS = ("ip.src", "ip.dst", "infiniband.bth.destqp", "infiniband.bth.psn")


@dataclass(frozen=True)
class Rates:
    """Packets per second, and bytes: of the file, and the most memory that was rocelab's own.

    ``flood_memory`` is that for a file of many flows, all of which lost packets.
    """

    packets: int
    file_size: int
    rocelab: float
    tshark: float
    scapy: float
    memory: int
    flood_flows: int
    flood_memory: int


def measure(packets: int) -> Rates:
    """Generate a capture and read it three times; what was written must be in memory before anyone reads."""
    with tempfile.TemporaryDirectory(prefix="rocelab-bench-") as directory:
        file = Path(directory) / "capture.pcapng"
        count = generate(file, packets)
        runs = [_rocelab(file) for _ in range(_REPEAT)]
        took, ours, memory = sorted(runs, key=lambda run: run[0])[_REPEAT // 2]
        theirs_took, theirs = _tshark(file)
        if ours != theirs or sum(ours.values()) != count:
            raise OperationFailed("rocelab and tshark count different packets by QP", "this is a bug: report it")
        size, scapy = file.stat().st_size, _scapy(file)
        file.write_bytes(flood(MAX_FLOWS))
        _, flows, flooded = _rocelab(file)
        return Rates(count, size, count / took, count / theirs_took, scapy, memory, len(flows), flooded)


def _rocelab(file: Path) -> tuple[float, Counter[int], int]:
    """Seconds, packets by QP, and bytes of memory at most."""
    began = time.monotonic()
    done = run([sys.executable, "-c", WEIGHED, "analyze", file, "--json"], timeout=600, check=False)
    took = time.monotonic() - began
    packets = Counter({flow["qp"]: flow["packets"] for flow in json.loads(done.stdout)["flows"]})
    return took, packets, int(done.stderr.split()[-1]) * 1024


def _tshark(file: Path) -> tuple[float, Counter[int]]:
    wanted = [argument for field in FIELDS for argument in ("-e", field)]
    began = time.monotonic()
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-T", "fields", *wanted], timeout=1800)
    took = time.monotonic() - began
    return took, Counter(int(line.split("\t")[2], 16) for line in done.stdout.splitlines())


def _scapy(file: Path) -> float:
    """Packets per second, of the same fields."""
    began = time.monotonic()
    with PcapNgReader(str(file)) as reader:
        rows = [
            (packet["IP"].src, packet["IP"].dst, packet[BTH].DestQP, packet[BTH].PSN)
            for packet in islice(reader, SCAPY_PACKETS)
        ]
    return len(rows) / (time.monotonic() - began)


def show(rates: Rates) -> None:
    """One row for each tool."""
    rows = [
        ("rocelab analyze", f"{rates.rocelab:,.0f}", "1"),
        ("tshark -T fields", f"{rates.tshark:,.0f}", f"{rates.rocelab / rates.tshark:.1f}"),
        ("scapy", f"{rates.scapy:,.0f}", f"{rates.rocelab / rates.scapy:.0f}"),
    ]
    title = f"QP table of {rates.packets:,} packets, {format_size(rates.file_size)}"
    stdout.print(table(title, ("", "packets/s", "rocelab is faster by"), rows))
    stdout.print(
        f"rocelab's own memory at most: {format_size(rates.memory)}; for {rates.flood_flows:,} flows that all lost "
        f"packets: {format_size(rates.flood_memory)}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="scripts/bench analyze", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--packets", type=int, default=PACKETS)
    wanted = parser.parse_args()
    stderr.print(f"{wanted.packets:,} packets; tshark takes a while", highlight=False)
    rates = measure(wanted.packets)
    if wanted.json:
        json.dump(asdict(rates), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show(rates)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"error: {error}")
