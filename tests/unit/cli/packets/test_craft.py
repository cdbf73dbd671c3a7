"""``rocelab craft`` as a user runs it: what it shows, what it writes, and how it refuses."""

import json
import subprocess
from pathlib import Path

from lab.analysis.read.records import Reader
from lab.wire.frame import Icrc, decode
from tests.fabric import resident
from tests.patience import PATIENCE


def craft(*words: str | Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = resident.ended("craft", *map(str, words), timeout=PATIENCE)
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_shows_fields_and_octets() -> None:
    text = craft("write", "--qp", "0x12", "--va", "0x1000", "--payload", "hello", "--bad-icrc").stdout
    assert text.startswith("Packet 1  write  82 bytes\n  Ethernet\n")
    assert "    DestQP     0x12                     queue pair at the receiver\n" in text
    assert "    0046  68 65 6c 6c 6f 00 00 00                          hello...          Data\n" in text
    assert text.endswith("  wrong by intent: the ICRC is wrong: the receiver drops this without an answer\n\n")


def test_writes_what_it_shows(tmp_path: Path) -> None:
    description = tmp_path / "three.yaml"
    description.write_text(
        "defaults: {rate: 10Gbit}\n"
        "packets:\n"
        "  - {kind: pfc, classes: 3=100us}\n"
        "  - {kind: pause, quanta: 0}\n"
        "  - {kind: pfc, classes: 3=0}\n"
    )
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    told = craft("--file", description, "-o", first, "--json")
    craft("--file", description, "-o", second)
    assert first.read_bytes() == second.read_bytes()
    with first.open("rb") as stream:
        reader = Reader(stream, str(first))
        records = [(record.timestamp, bytes(record.data).hex()) for record in reader]
    assert reader.interfaces[0].speed == 10**10
    assert [timestamp for timestamp, _ in records] == [0, 1000, 2000]
    shown = json.loads(told.stdout)
    assert [packet["octets"] for packet in shown] == [octets for _, octets in records]
    assert [packet["kind"] for packet in shown] == ["pfc", "pause", "pfc"]


def test_a_count_is_written_in_full_and_shown_once(tmp_path: Path) -> None:
    output = tmp_path / "many.pcapng"
    done = craft("write", "--count", "2000", "--psn", "0xffffff", "--vni", "10", "-o", output)
    assert done.stdout.count("RETH, RDMA") == 1
    assert "  and 1999 more like it\n" in done.stdout
    assert done.stderr == f"2000 packets written to {output}\n"
    with output.open("rb") as stream:
        inners = [decode(bytes(record.data)).inner for record in Reader(stream, str(output))]
    psns = [inner.bth.psn for inner in inners if inner and inner.bth and inner.icrc is Icrc.OK]
    assert psns == [0xFFFFFF, *range(1999)]


def test_json_says_what_is_wrong_by_intent() -> None:
    (packet,) = json.loads(craft("send", "--wrong-psn", "-3", "--psn", "2", "--json").stdout)
    assert packet["wrong_by_intent"].startswith("PSN 2 is due, 3 after this")
    frame = decode(bytes.fromhex(packet["octets"]))
    assert frame.bth is not None
    assert (frame.bth.psn, frame.icrc) == (0xFFFFFF, Icrc.OK)


def test_names_every_wrong_option() -> None:
    said = craft("write", "--psn", "x", "--qp", "99999999", expect=2).stderr
    assert said == (
        "error: rocelab craft: --qp: '99999999' is out of range; choose 0 to 16777215 (0xffffff)\n"
        "rocelab craft: --psn: 'x' is not a whole number; choose 0 to 16777215 (0xffffff)\n"
    )


def test_refuses_nothing_both_and_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    assert "no packet is described" in craft(expect=2).stderr
    assert "cannot both" in craft("ack", "--file", tmp_path / "x", expect=2).stderr
    missing = craft("--file", tmp_path / "x", expect=2).stderr
    assert missing.endswith("/x: name a YAML file of packets; rocelab craft --help has the keys\n")
    assert "Is a directory" in craft("ack", "-o", tmp_path, expect=2).stderr
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: ack\ncolour: red\n")
    assert f"{bad}:2: colour: is not a known key" in craft("--file", bad, expect=2).stderr


def test_how_to_send_is_refused_where_nothing_is_sent() -> None:
    for option, value in (("--pace", "100"), ("--fabric", "fabric")):
        assert f"{option} needs --send: add --send NODE:IF" in craft("cnp", option, value, expect=2).stderr
