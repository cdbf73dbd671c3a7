"""Packets sent by ``rocelab craft --send``, as the switch at the other end of the cable sees them."""

from __future__ import annotations

import io
import json
import signal
from typing import TYPE_CHECKING

import pytest

from lab.analysis.read.records import Reader
from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.kernel.process.netns import Namespace
from lab.rdma.sysfs import until
from lab.wire.frame import DecodedFrame, Icrc, decode
from lab.wire.pcapng import Direction, Record, Writer
from tests.fabric.command import TOPOLOGIES, rocelab, running
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.backends]

NAME = "inject"
H1, LEAF1 = Namespace(f"rl-{NAME}.h1"), Namespace(f"rl-{NAME}.leaf1")
H3_ADDRESS = "10.0.0.5"
MIXED = f"""
packets:
  - {{kind: pfc, classes: "3=65535,4=0", count: 200}}
  - {{kind: write, dst: {H3_ADDRESS}, psn: 0xffff00, payload-size: 256, count: 400}}
  - {{kind: write, dst: 10.1.1.1, src: 10.1.1.2, vni: 10, vtep-dst: {H3_ADDRESS}, payload-size: 64, count: 400}}
  - {{kind: nak, dst: {H3_ADDRESS}, bad-icrc: true, ttl: 1}}
"""


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[None]:
    """h1:eth1 -- swp3:leaf1 is the cable that is looked at."""
    rocelab("up", TOPOLOGIES / "clos-2x2.yaml", "--name", NAME, "--no-rdma")
    yield
    rocelab("down", "--fabric", NAME)


class Seen:
    """The packets that arrive at leaf1:swp3 meanwhile, without those that the stack of h1 sends by itself."""

    def __init__(self) -> None:
        self._output = io.BytesIO()
        self._capture = LiveCapture([Point(LEAF1, "swp3", "leaf1:swp3")], Writer(self._output))

    def __enter__(self) -> Seen:
        self._capture.__enter__()
        self._capture.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._capture.stop()
        self._capture.__exit__(None, None, None)

    @property
    def records(self) -> list[Record]:
        reader = Reader(io.BytesIO(self._output.getvalue()), "leaf1:swp3")
        return [record for record in reader if record.direction == Direction.INBOUND and is_ours(record)]


def is_ours(record: Record) -> bool:
    frame = decode(bytes(record.data))
    return frame.bth is not None or frame.pfc is not None or frame.inner is not None


def octets(records: list[Record]) -> list[bytes]:
    return [bytes(record.data) for record in records]


def written(file: Path) -> list[bytes]:
    with file.open("rb") as stream:
        return octets(list(Reader(stream, str(file))))


def mac(namespace: Namespace, interface: str) -> bytes:
    (link,) = json.loads(namespace.run(["ip", "-json", "link", "show", "dev", interface]).stdout)
    return bytes.fromhex(link["address"].replace(":", ""))


def test_every_octet_arrives(tmp_path: Path) -> None:
    description, output = tmp_path / "mixed.yaml", tmp_path / "mixed.pcapng"
    description.write_text(MIXED)
    with Seen() as seen:
        done = rocelab("craft", "-f", description, "-o", output, "--send", "h1:eth1", "--pace", "500", "--json")
    records = seen.records
    assert octets(records) == written(output)
    assert len(records) == 1001
    sent = json.loads(done.stdout)["sent"]
    assert (sent["interface"], sent["packets"], sent["wanted"], sent["refused"]) == ("h1:eth1", 1001, 1001, 0)
    assert sent["bytes"] == sum(record.length for record in records)


def test_addresses_that_are_not_given_are_those_of_the_interface_and_its_gateway() -> None:
    H1.run(["ip", "neigh", "flush", "dev", "eth1"])  # so that the gateway has to be asked
    with Seen() as seen:
        done = rocelab("craft", "write", "--dst", "h3", "--payload", "hi", "--send", "h1:eth1")
        rocelab("craft", "pause", "--send", "h1:eth1", "--fabric", NAME)
        rocelab("craft", "cnp", "--dst", H3_ADDRESS, "--src", "10.0.0.9", "--send", "h1:eth1")
    assert "1 packet sent from h1:eth1 in" in done.stderr
    write, cnp = octets(seen.records)
    assert (write[:6], write[6:12]) == (mac(LEAF1, "swp3"), mac(H1, "eth1"))
    assert addresses(decode(write)) == ("10.0.0.1", H3_ADDRESS, Icrc.OK)
    assert addresses(decode(cnp)) == ("10.0.0.9", H3_ADDRESS, Icrc.OK)


def test_a_source_with_ipv6_is_the_interfaces_own_too() -> None:
    for namespace, interface, address in ((H1, "eth1", "fd77::1/64"), (LEAF1, "swp3", "fd77::2/64")):
        namespace.run(["ip", "address", "add", address, "dev", interface, "nodad"])
    with Seen() as seen:
        rocelab("craft", "write", "--dst", "fd77::2", "--payload", "hi", "--send", "h1:eth1")
    (write,) = octets(seen.records)
    assert (write[:6], write[6:12]) == (mac(LEAF1, "swp3"), mac(H1, "eth1"))
    assert addresses(decode(write)) == ("fd77::1", "fd77::2", Icrc.OK)


def addresses(frame: DecodedFrame) -> tuple[str, str, Icrc | None]:
    return frame.src, frame.dst, frame.icrc


def test_an_interrupt_ends_it_with_a_report_of_what_was_sent() -> None:
    what = ("write", "--dst", H3_ADDRESS, "--count", "100000", "--pace", "200", "--send", "h1:eth1", "--json")
    with Seen() as seen, running("craft", *what) as command:
        assert until(lambda: len(seen.records) >= 20, timeout=PATIENCE)
        command.send_signal(signal.SIGINT)
        told, errors = command.communicate(timeout=PATIENCE)
    assert (command.returncode, errors) == (0, "")
    assert 20 <= json.loads(told)["sent"]["packets"] == len(seen.records) < 100_000


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("--send", "h1:eth9"), 2, "eth9"),
        (("--send", "h1--leaf1"), 2, "names no interface"),
        (("--send", "h1:eth1", "--fabric", "absent"), 2, "absent"),
        (("--send", "h1:eth1", "--pace", "fast"), 2, "--pace fast cannot be read"),
        (("--send", "h1:eth1", "--pace", "0"), 2, "--pace 0 cannot be read"),
        (("--send", "h1:eth1"), 2, "the write has no destination: add --dst"),
        (("--send", "leaf1:swp3", "--dst", "10.0.0.77"), 1, "10.0.0.77 does not answer on swp3"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_one_line(words: tuple[str, ...], code: int, complaint: str) -> None:
    done = rocelab("craft", "write", *words, expect=code)
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interface_that_is_too_small_or_down_is_an_error() -> None:
    what = ("craft", "write", "--dst", H3_ADDRESS, "--dst-mac", "02:00:00:00:00:01", "--send", "h1:eth1")
    try:
        H1.run(["ip", "link", "set", "eth1", "mtu", "1500"])
        assert "longer than" in rocelab(*what, "--src", "10.0.0.1", "--payload-size", "2000", expect=2).stderr
        H1.run(["ip", "link", "set", "eth1", "down"])
        assert "Network is down" in rocelab(*what, "--src", "10.0.0.1", expect=1).stderr
    finally:
        H1.run(["ip", "link", "set", "eth1", "mtu", "9000", "up"])
