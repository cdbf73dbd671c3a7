"""``rocelab capture`` as a process of its own, on a running fabric: what it writes, how it ends, what it refuses."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.analysis.read.records import Reader
from lab.analysis.views.follow import follow
from lab.backends.lifecycle import open_fabric
from lab.cli.packets.extcap import wiresharks_folder
from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.kernel.process.process import find_tool, run
from lab.model.values.link_selection import choose_links
from lab.rdma.sysfs import until
from lab.wire.filter.parse import parse
from lab.wire.pcapng import Writer
from lab.wire.udp_ports import ROCEV2_PORT
from tests.fabric.command import argv, rocelab, running
from tests.fabric.frames import listening, write
from tests.inside import entered
from tests.patience import PATIENCE
from tests.unit.analysis import packets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.backends]

TOPOLOGY = """
name: capturing
nodes:
  spine1: {role: spine}
  leaf1: {role: leaf}
  h1: {role: host}
links:
  - {ends: [leaf1, spine1]}
  - {ends: [leaf1, spine1]}
  - {ends: [h1, leaf1]}
"""


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("capturing") / "capturing.yaml"
    file.write_text(TOPOLOGY)
    rocelab("up", file, "--no-rdma")
    yield "capturing"
    rocelab("down", "--fabric", "capturing")


def grown(file: Path, size: int) -> None:
    """Wait until ``file`` has more than ``size`` bytes."""
    assert until(lambda: file.exists() and file.stat().st_size > size, timeout=PATIENCE), (
        f"{file} stays below {size} bytes"
    )


def heard(file: Path) -> set[int]:
    """The interfaces with packets so far. The file is empty for a moment, which the reader refuses."""
    octets = file.read_bytes() if file.exists() else b""
    return {record.interface for record in Reader(io.BytesIO(octets), "so far")} if octets else set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_with_a_whole_file(fabric: str, tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "links.pcapng"
    with running("capture", "leaf1--spine1", "h1:eth1", "-o", file, "--fabric", fabric) as capturing:
        assert until(lambda: len(heard(file)) == 2, timeout=PATIENCE)  # BFD and BGP, at both ends of the link
        capturing.send_signal(number)
        output, errors = capturing.communicate(timeout=PATIENCE)
    assert (capturing.returncode, errors) == (0, "")
    assert [line.split()[1] for line in output.splitlines() if ":" in line and "pcapng" not in line] == [
        "leaf1:swp1",
        "leaf1:swp2",
        "h1:eth1",
    ]
    told = run([find_tool("capinfos", "wireshark-common"), file]).stdout
    assert told.count("Number of stat entries = 1") == 3
    assert "Strict time order:   True" in told
    names = run(
        [find_tool("tshark", "tshark"), "-n", "-r", file, "-T", "fields", "-e", "frame.interface_name"]
    ).stdout
    assert {"leaf1:swp1", "leaf1:swp2"} <= set(names.split())


def test_a_killed_capture_leaves_a_readable_file(fabric: str, tmp_path: Path) -> None:
    file = tmp_path / "killed.pcapng"
    with running("capture", "leaf1--spine1", "-o", file, "--fabric", fabric) as capturing:
        grown(file, 1000)
        capturing.kill()
    assert len(list(Reader(io.BytesIO(file.read_bytes()), "killed"))) > 0


def test_wrong_links_and_files_are_usage_errors(fabric: str, tmp_path: Path) -> None:
    told = rocelab("capture", "leaf1:swp9", "-o", tmp_path / "f", "--fabric", fabric, expect=2).stderr
    assert told == "error: no interface 'swp9' on leaf1: it has swp1, swp2, swp3\n"
    told = rocelab("capture", "leaf1:swp1", "-o", tmp_path / "no" / "f", "--fabric", fabric, expect=2).stderr
    assert told == f"error: cannot write {tmp_path}/no/f: No such file or directory: name another file\n"
    told = rocelab("capture", "leaf1:swp1", "-o", "/dev/full", "--fabric", fabric, expect=2).stderr
    assert told == "error: cannot write /dev/full: No space left on device: name another file\n"


FULL = 'mount -t tmpfs -o size=8k tmpfs "$0"; dd if=/dev/zero of="$0/rest" bs=4k count=2; exec "$@"'
READ_ONLY = 'mount -t tmpfs -o ro tmpfs "$0"; exec "$@"'


@pytest.mark.parametrize(
    ("mounted", "code", "said"),
    [
        (FULL, 2, "x.pcapng: No space left on device: name another file"),
        (READ_ONLY, 2, "x.pcapng: Read-only file system"),
    ],
    ids=["full", "read-only"],
)
def test_a_folder_that_takes_nothing_is_an_error_before_anything_is_captured(
    fabric: str, tmp_path: Path, mounted: str, code: int, said: str
) -> None:
    words = argv("capture", "leaf1", "--fabric", fabric, "--seconds", "600", "-o", tmp_path / "x.pcapng")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted, str(tmp_path), *words],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_result_that_the_folder_of_the_caller_has_no_room_for_ends_the_capture(
    fabric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the VM, where the host says how much room there is."""
    monkeypatch.setenv("ROCELAB_IN_VM", "1")
    monkeypatch.setenv("ROCELAB_ROOM", "6000")
    file = tmp_path / "x.pcapng"
    with running("capture", "h1", "--fabric", fabric, "-o", file) as capturing:
        h1 = open_fabric(fabric).namespace("h1")
        assert until(lambda: listening(h1), timeout=PATIENCE)  # some time after its file has begun
        with entered(h1), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind(("eth1", 0))
            sender.send(bytes(1000))
            assert until(lambda: bool(heard(file)), timeout=PATIENCE)  # before there are more than the room is for
            for _ in range(int(PATIENCE / 0.05)):
                sender.send(bytes(1000))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    capturing.wait(0.05)
                    break
        out, err = capturing.communicate(timeout=PATIENCE)
    assert (capturing.returncode, out) == (1, "")
    assert f"cannot write the capture {file}: No room for a longer file: everything before that is valid" in err
    with file.open("rb") as stream:
        assert len(list(Reader(stream, "x"))) > 0
    assert file.stat().st_size <= 6000


def test_packets_can_go_to_a_pipe(fabric: str) -> None:
    words = argv("capture", "leaf1--spine1", "-o", "-", "--packets", "3", "--fabric", fabric)
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=True)
    assert len(list(Reader(io.BytesIO(done.stdout), "pipe"))) == 3
    assert b"lost by the kernel" in done.stderr


def test_a_node_a_tier_and_a_path_are_all_their_links(fabric: str, tmp_path: Path) -> None:
    for name, labels in (
        ("leaf1", ["leaf1:swp1", "leaf1:swp2", "leaf1:swp3"]),
        ("host", ["h1:eth1"]),
        ("h1..spine1", ["h1:eth1", "leaf1:swp1", "leaf1:swp2"]),
    ):
        words = ("capture", name, "-o", tmp_path / "f", "--seconds", "0", "--fabric", fabric, "--json")
        assert [link["link"] for link in json.loads(rocelab(*words).stdout)["links"]] == labels


def test_live_prints_what_the_filter_lets_through(fabric: str) -> None:
    done = rocelab("capture", "leaf1", "--live", "--filter", "not roce", "--packets", "4", "--fabric", fabric)
    lines = done.stdout.splitlines()[:4]
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert all(" bytes" in line and "leaf1:swp" in line for line in lines)


def test_a_reader_of_live_lines_that_leaves_ends_the_capture(fabric: str) -> None:
    words = argv("capture", "leaf1", "--live", "--fabric", fabric)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as capturing:
        assert capturing.stdout is not None
        assert capturing.stderr is not None
        assert b"leaf1:swp" in capturing.stdout.readline()
        capturing.stdout.close()
        assert capturing.wait(PATIENCE) == 0
        assert capturing.stderr.read() == b""


def test_a_packet_is_followed_over_the_links_of_its_path(fabric: str) -> None:
    here = open_fabric(fabric)
    goal = here.plan["spine1"].loopback4
    show = ["ip", "route", "show", f"{goal}/32"]  # ``up`` waits for prefixes of leaves only
    assert until(lambda: bool(here.namespace("leaf1").run(show).stdout), timeout=PATIENCE), (
        f"leaf1 has no route to {goal}"
    )
    points = [
        Point(here.namespace(end.node), end.interface, str(end), link.rate)
        for end, link in choose_links(here.topology, ["h1..spine1"])
    ]
    with entered(here.namespace("h1")):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    output = io.BytesIO()
    with sender, LiveCapture(points, Writer(output), wanted=parse("psn==4711")) as capture:
        for psn in (4711, 4712):
            sender.sendto(write(0x11, psn)[42:], (str(goal), ROCEV2_PORT))
        capture.run(packets=2, seconds=10)
    output.seek(0)
    (track,) = follow(output, "path", 0x11, 4711)
    (copy,) = track.copies
    first, second = copy.sightings
    assert (first.link, first.hops, second.hops) == ("h1:eth1", 64, 63)
    assert second.link in {"leaf1:swp1", "leaf1:swp2"}
    assert 0 < copy.delays[0] < 10**9


def test_a_filter_knows_the_hosts_of_the_fabric(fabric: str, tmp_path: Path) -> None:
    words = ("capture", "leaf1", "-o", tmp_path / "f", "--seconds", "0", "--fabric", fabric)
    rocelab(*words, "--filter", "host h1 or src leaf1")
    told = rocelab(*words, "--filter", "host h9", expect=2).stderr
    assert told == "error: no node 'h9' in the fabric: there is spine1, leaf1, h1\n"


def test_a_ring_of_files_is_written(fabric: str, tmp_path: Path) -> None:
    words = ("capture", "leaf1", "-o", tmp_path / "f.pcapng", "--packets", "3", "--fabric", fabric)
    rocelab(*words, "--ring", "2:2MB")
    (file,) = tmp_path.iterdir()
    assert file.name == "f_00001.pcapng"
    assert len(list(Reader(io.BytesIO(file.read_bytes()), "ring"))) == 3
    assert "write for example 10:100MB" in rocelab(*words, "--ring", "2", expect=2).stderr
    assert "--ring 2x20KB is not FILES:SIZE" in rocelab(*words, "--ring", "2x20KB", expect=2).stderr
    assert "is too small: at least 2 files" in rocelab(*words, "--ring", "1:2MB", expect=2).stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "packets have no destination: give -o a file, or --live to see them"),
        (("-o", "-", "--live"), "packets and lines cannot both go to standard output"),
        (("--json", "--live"), "lines and JSON cannot both go to standard output"),
        (("--live", "--ring", "2:2MB"), "a ring is made of files: give -o the name of a file"),
    ],
)
def test_outputs_that_exclude_each_other(fabric: str, options: tuple[str, ...], complaint: str) -> None:
    assert complaint in rocelab("capture", "leaf1", *options, "--fabric", fabric, expect=2).stderr


def test_on_event_nothing_is_written_until_something_happens(fabric: str, tmp_path: Path) -> None:
    file = tmp_path / "f.pcapng"
    words = ("capture", "leaf1", "-o", file, "--on-event", "nak,drop", "--fabric", fabric)
    done = rocelab(*words, "--seconds", "0.2")
    assert "nothing happened" in done.stderr
    with running(*words) as waiting:
        assert waiting.stderr is not None
        assert "waiting for drop, nak at 3 links" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(PATIENCE) == 0
    assert not list(tmp_path.iterdir())


def test_on_event_keeps_what_led_to_it_and_ends(fabric: str, tmp_path: Path) -> None:
    """NAKs go on until the capture has seen one; it ends by itself, and has it."""
    file = tmp_path / "f.pcapng"
    nak = packets.ack(42, 0x60)
    with entered(open_fabric(fabric).namespace("h1")):
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with (
        link,
        running(
            "capture", "h1:eth1", "-o", file, "--on-event", "nak", "--after", "0ms", "--fabric", fabric
        ) as waiting,
    ):
        link.bind(("eth1", 0))
        while waiting.poll() is None:
            link.send(nak)
            with contextlib.suppress(subprocess.TimeoutExpired):
                waiting.wait(0.05)
        assert waiting.returncode == 0
    kept = [bytes(record.data) for record in Reader(io.BytesIO(file.read_bytes()), "kept")]
    assert kept.count(nak) == 1
    assert kept[-1] == nak


@pytest.fixture
def extcap() -> Iterator[None]:
    """The program in Wireshark's own folder: of root it takes no other. The earlier program comes back."""
    program = wiresharks_folder() / "rocelab"
    before = program.read_bytes() if program.exists() else None
    rocelab("extcap", "--install")
    yield
    rocelab("extcap", "--remove")
    assert not program.exists()
    if before is not None:
        program.write_bytes(before)
        program.chmod(0o755)


@pytest.mark.usefixtures("extcap")
def test_tshark_captures_from_a_link_in_its_list(fabric: str) -> None:
    """By the program that one command installs: tshark -D lists the link, and -i captures from it with a filter."""
    tshark = find_tool("tshark", "tshark")
    listed = run([tshark, "-D"]).stdout
    assert f"rocelab:{fabric}:leaf1:swp3 (rocelab {fabric} leaf1:swp3 to h1:eth1)" in listed
    assert f"rocelab:{fabric} (rocelab {fabric}, all links)" in listed
    nak = packets.ack(42, 0x60)
    with entered(open_fabric(fabric).namespace("h1")):
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    words = [tshark, "-n", "-i", f"rocelab:{fabric}:leaf1:swp3", "-c", "2", "-f", "nak", "-Tfields"]
    fields = ["-einfiniband.bth.psn", "-eframe.interface_name"]
    pipe = subprocess.PIPE
    with link, subprocess.Popen([*words, *fields], stdout=pipe, stderr=pipe, text=True) as capturing:
        link.bind(("eth1", 0))
        while capturing.poll() is None:
            link.send(nak)
            with contextlib.suppress(subprocess.TimeoutExpired):
                capturing.wait(0.05)
        assert capturing.stdout is not None
        assert capturing.stderr is not None
        assert capturing.stdout.read().splitlines() == ["42\tleaf1:swp3"] * 2, capturing.stderr.read()
