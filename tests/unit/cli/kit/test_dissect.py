"""``rocelab dissect`` as a user runs it: what it prints, its exit codes, and what it imports."""

import json
import subprocess
import sys
from pathlib import Path as File

import pytest

from lab.cli.kit.host_names import parse_filter
from lab.errors import UsageError
from lab.kernel.process.process import find_tool, run
from lab.wire.craft.build import Path, RoceMessage, pfc, rocev2, vxlan
from lab.wire.headers import Aeth, PfcFrame, Reth
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Interface, Record, Statistics, Writer
from lab.wire.syndrome import AckKind, NakCode, Syndrome
from tests.fabric import resident
from tests.patience import PATIENCE

TO = Path("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2")
BACK = Path("02:00:00:00:00:02", "02:00:00:00:00:01", "10.0.0.2", "10.0.0.1")
WRITE = rocev2(TO, RoceMessage(Opcode.RC_RDMA_WRITE_ONLY, 0x11, 7, True, reth=Reth(0x1000, 0x22, 4), payload=b"data"))
NAK = rocev2(
    BACK, RoceMessage(Opcode.RC_ACKNOWLEDGE, 0x12, 6, aeth=Aeth(Syndrome(AckKind.NAK, NakCode.PSN_SEQUENCE_ERROR), 5))
)


@pytest.fixture
def exchange(tmp_path: File) -> File:
    capture = tmp_path / "exchange.pcapng"
    with capture.open("wb", buffering=0) as output:
        writer = Writer(output)
        writer.add_interface(Interface("leaf1:swp1"))
        writer.write(
            [
                Record(10**18, 0, len(WRITE), Direction.INBOUND, WRITE),
                Record(10**18 + 1500, 0, len(NAK), Direction.OUTBOUND, NAK),
                Record(10**18 + 2500, 0, len(WRITE), Direction.INBOUND, WRITE[:50]),
            ]
        )
        writer.write_statistics(0, Statistics(received=5, dropped=2))
    return capture


def dissect(*words: str | File | int, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = resident.ended("dissect", *map(str, words), timeout=PATIENCE)
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_summary_is_a_line_for_each_packet(exchange: File) -> None:
    done = dissect(exchange, "--summary")
    # The places of the columns in the first line, the words of the others.
    write, nak, cut = done.stdout.splitlines()
    assert write.startswith(
        "     1    0.000000000  leaf1:swp1 in     10.0.0.1 > 10.0.0.2  RC RDMA WRITE Only  QP 0x000011"
    )
    assert write.endswith(
        "PSN 7  AckReq  VA 0x1000 R_Key 0x22 DMALen 4  payload 4  78 bytes  DSCP 26 ECT(0)  ICRC ok"
    )
    assert "  0.000001500  leaf1:swp1 out  " in nak
    assert "RC Acknowledge  QP 0x000012  PSN 6  MSN 5 NAK, PSN Sequence Error  62 bytes" in nak
    assert cut.endswith("[cut by the snap length: the BTH would end at byte 54, captured are 50]")
    assert done.stderr == "leaf1:swp1: 2 packets missing, lost while capturing\n"


def test_json_has_the_same_facts(exchange: File) -> None:
    write, nak, cut = json.loads(dissect(exchange, "--summary", "--json").stdout)["packets"]
    assert (write["opcode_name"], write["bth"]["psn"], write["reth"]["dmalen"]) == ("RC RDMA WRITE Only", 7, 4)
    assert nak["aeth"] == {"syndrome": 0x60, "meaning": "NAK, PSN Sequence Error", "msn": 5}
    assert cut["bth"] is None
    assert "snap length" in cut["fault"]


def test_only_rocev2_keeps_the_numbers_and_counts_towards_the_limit(tmp_path: File) -> None:
    capture = tmp_path / "mixed.pcapng"
    arp = bytes.fromhex("ffffffffffff020000000001 0806") + bytes(46)
    with capture.open("wb", buffering=0) as output:
        writer = Writer(output)
        writer.add_interface(Interface("h1:eth1"))
        writer.write([Record(10**18, 0, len(data), Direction.OUTBOUND, data) for data in (arp, WRITE, arp, WRITE)])
    assert len(dissect(capture, "--summary").stdout.splitlines()) == 4
    only, last = dissect(capture, "--summary", "--filter", "roce", "--limit", "2").stdout.splitlines()
    assert only.split()[0] == "2"
    assert last.split()[0] == "4"
    assert "RDMA WRITE" in only


@pytest.fixture
def many(tmp_path: File) -> File:
    """Thirty WRITEs, 2.5 us apart, that began at a time which is known."""
    capture = tmp_path / "many.pcapng"
    with capture.open("wb", buffering=0) as output:
        writer = Writer(output)
        writer.add_interface(Interface("h1:eth1"))
        writer.write(
            Record(1_700_000_000_123_456_789 + n * 2500, 0, len(WRITE), Direction.OUTBOUND, WRITE) for n in range(30)
        )
    return capture


def test_it_says_that_it_stopped_at_its_limit(many: File) -> None:
    note = "stopped at the limit of 10 packets: --limit N for more, --packet N for one, --summary for all\n"
    assert dissect(many).stderr == note
    assert dissect(many, "--summary").stderr == ""
    assert dissect(many, "--limit", 30).stderr == ""
    assert json.loads(dissect(many, "--json").stdout)["stopped_at_limit"] is True
    assert json.loads(dissect(many, "--json", "--summary").stdout)["stopped_at_limit"] is False
    piped = subprocess.run(
        [sys.executable, "-m", "lab", "dissect", "-", "--limit", "30"],
        input=many.read_bytes(), capture_output=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert b"stopped at the limit of 30" in piped.stderr, "nobody waits to know whether there is more"


def test_it_says_why_there_is_nothing_to_show(many: File, tmp_path: File) -> None:
    for mode in ((), ("--summary",), ("--columns", "number")):
        none = dissect(many, "--filter", "psn==99999", *mode)
        assert none.stderr == "no packet matches: the file has 30 other packets\n"
    empty = tmp_path / "empty.pcapng"
    with empty.open("wb", buffering=0) as output:
        Writer(output).add_interface(Interface("leaf1:swp1"))
    assert dissect(empty).stderr == "the file has no packets\n"
    assert dissect(empty, "--json").stderr == ""


def test_single_packets_by_their_numbers(many: File) -> None:
    text = dissect(many, "--packet", 17, "--no-figures").stdout
    assert text.startswith("Packet 17  0.000040000 s")
    assert text.count("BTH, base transport header") == 1
    lines = dissect(many, "--packet", 29, "--packet", 3, "--summary").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "29"]
    missing = dissect(many, "--packet", 31, "--summary")
    assert (missing.stdout, missing.stderr) == ("", "there is no packet 31: the file has 30\n")


@pytest.mark.parametrize(
    ("clock", "tshark_clock"), [("relative", "r"), ("absolute", "ad"), ("epoch", "e"), ("delta", "dd")]
)
def test_times_are_those_of_tshark(many: File, clock: str, tshark_clock: str) -> None:
    argv: list[str | File] = [
        find_tool("tshark", "tshark"),
        "-n",
        "-r",
        many,
        "-t",
        tshark_clock,
        "-Tfields",
        "-e_ws.col.Time",
    ]
    ours = dissect(many, "--columns", "time", "--time", clock).stdout.splitlines()[1:]
    assert [line.strip() for line in ours] == run(argv).stdout.splitlines()
    told = json.loads(dissect(many, "--json", "--summary", "--time", clock).stdout)["packets"]
    assert [packet["clock"] for packet in told] == [line.strip() for line in ours]


def test_columns_that_somebody_asked_for(exchange: File) -> None:
    lines = dissect(exchange, "--columns", "number,psn,answer,src,QPN").stdout.splitlines()
    assert lines[0].split() == ["number", "psn", "answer", "src", "qpn"]
    assert lines[1].split() == ["1", "7", "10.0.0.1", "0x000011"]
    assert lines[2].split(None, 2)[2].startswith("NAK, PSN Sequence Error   10.0.0.2         0x000012")
    assert lines[3].split() == ["3", "10.0.0.1"], "cut before the BTH"
    first = json.loads(dissect(exchange, "--columns", "psn,icrc,length", "--json").stdout)["packets"][0]
    assert first == {"psn": 7, "icrc": "ok", "length": len(WRITE)}
    told = dissect(exchange, "--columns", "psnn", expect=2).stderr
    assert told == "error: --columns: there is no column 'psnn': did you mean 'psn'?\n"


def test_columns_are_what_tshark_shows(fabric_port: File) -> None:
    """Of a tunnelled packet the inner addresses and BTH, and the outer VNI and TTL."""
    row = dissect(fabric_port, "--columns", "src,dst,qpn,psn,vni,ttl,length").stdout.splitlines()[2]
    fields = ("ip.src", "ip.dst", "infiniband.bth.destqp", "infiniband.bth.psn", "vxlan.vni", "ip.ttl", "frame.len")
    argv: list[str | File] = [
        find_tool("tshark", "tshark"),
        "-n",
        "-r",
        fabric_port,
        "-Tfields",
        *(f"-e{name}" for name in fields),
    ]
    src, dst, qpn, psn, vni, ttl, length = run(argv).stdout.splitlines()[1].split("\t")
    inner = [src.split(",")[1], dst.split(",")[1]]
    assert row.split() == [*inner, f"{int(qpn, 16):#08x}", psn, vni, ttl.split(",")[0], length]


def test_a_filter_keeps_the_numbers_of_what_it_lets_through(exchange: File) -> None:
    (only,) = dissect(exchange, "--summary", "--filter", "nak and host 10.0.0.1").stdout.splitlines()
    assert only.split()[0] == "2"
    assert json.loads(dissect(exchange, "--json", "--filter", "qpn==0x99").stdout)["packets"] == []


def test_a_wrong_filter_is_a_usage_error_with_its_place(exchange: File) -> None:
    told = dissect(exchange, "--filter", "qpn==0x11 or", expect=2).stderr
    assert told.startswith("error: filter, position 13: expected 'not', '(', or one of qpn, psn, ")


def test_a_filter_has_nobody_to_ask_for_a_host_where_no_fabric_runs(
    exchange: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither here nor in a VM, whatever runs beside this test."""
    monkeypatch.setattr("lab.backends.fabric_state.all_fabrics", list)
    monkeypatch.setattr("lab.cli.vm_routing.ask_vm", lambda *_: None)
    with pytest.raises(UsageError) as caught:
        parse_filter("qpn==0x11 or host h1 and", None, exchange)
    told = str(caught.value)
    assert told.startswith("no fabric is running to look up 'h1': write its IP address, or give --fabric")


def test_a_filter_knows_the_hosts_of_a_topology(exchange: File) -> None:
    """By the topology's plan of addresses, h1 is 10.0.0.1, which the exchange is with."""
    topology = File(__file__).parents[4] / "topologies/clos-2x4.yaml"
    shown = dissect(exchange, "--summary", "--filter", "nak and dst h1", "--fabric", topology).stdout
    assert shown.split()[0] == "2"
    told = dissect(exchange, "--filter", "host h99", "--fabric", topology, expect=2).stderr
    assert "no node 'h99' in the fabric: there is spine1" in told
    assert "no file none.yaml" in dissect(exchange, "--filter", "host h1", "--fabric", "none.yaml", expect=2).stderr


@pytest.fixture
def fabric_port(tmp_path: File) -> File:
    """What a leaf's uplink at 100 Mb/s sees: a class stopped, and RDMA in a tunnel."""
    capture = tmp_path / "uplink.pcapng"
    frames = [pfc("02:00:00:00:00:01", PfcFrame.of({3: 65535, 4: 0})), vxlan(TO, 10, NAK), vxlan(TO, 10, NAK)[:106]]
    with capture.open("wb", buffering=0) as output:
        writer = Writer(output)
        writer.add_interface(Interface("leaf1:swp1", speed=10**8))
        writer.write(Record(10**18, 0, max(len(frame), 60), Direction.INBOUND, frame) for frame in frames[:2])
        writer.write([Record(10**18, 0, 112, Direction.INBOUND, frames[2])])
    return capture


def test_summary_of_pauses_and_tunnels(fabric_port: File) -> None:
    paused, tunnelled, cut = dissect(fabric_port, "--summary").stdout.splitlines()
    assert "PFC  class 3 XOFF 65535 quanta = 335.5 ms  class 4 XON  60 bytes" in paused
    assert "VNI 10  112 bytes  DSCP 26 ECT(0)  | 10.0.0.2 > 10.0.0.1  RC Acknowledge" in tunnelled
    assert "| 10.0.0.2 > 10.0.0.1  RC Acknowledge" in cut
    assert cut.endswith("ICRC unknown  [cut by the snap length: AETH would end at byte 108, captured are 106]")


def test_json_of_pauses_and_tunnels(fabric_port: File) -> None:
    paused, tunnelled, _ = json.loads(dissect(fabric_port, "--summary", "--json").stdout)["packets"]
    assert paused["pfc"] == {"vector": 0x18, "quanta": [0, 0, 0, 65535, 0, 0, 0, 0]}
    assert (tunnelled["vni"], tunnelled["bth"], tunnelled["icrc"]) == (10, None, None)
    inner = tunnelled["inner"]
    assert (inner["opcode_name"], inner["icrc"], inner["aeth"]["msn"]) == ("RC Acknowledge", "ok", 5)


def test_explanation_of_pauses_and_tunnels(fabric_port: File) -> None:
    text = dissect(fabric_port).stdout
    assert "class 3: stop for 335.5 ms at the link's rate" in text
    assert text.count("VXLAN, a frame in a tunnel") == 2
    assert "stops here: cut by the snap length: AETH would end at byte 108, captured are 106" in text


def test_headers_are_explained(exchange: File) -> None:
    text = dissect(exchange, "--limit", "2").stdout
    assert "BTH, base transport header" in text
    assert "Syndrome   0x60                     NAK, PSN Sequence Error" in text
    assert "Packet 3" not in text


def test_a_header_is_drawn_and_justified_where_it_comes_first(exchange: File) -> None:
    text = dissect(exchange, "--limit", "2").stdout
    assert text.count("|     OpCode    |S|M|Pad|  TVer |             P_KEY             |") == 1
    assert text.replace("\n", " ").count("PSN, which reveals loss") == 1
    assert "AETH" in text.split("one lost packet costs all behind it")[0]
    assert "+-+-" not in dissect(exchange, "--no-figures").stdout


def test_explained_json(exchange: File) -> None:
    first = json.loads(dissect(exchange, "--json").stdout)["packets"][0]
    assert [header["name"].split(",")[0] for header in first["headers"]][3:] == ["BTH", "RETH", "Data", "ICRC"]


def test_summary_does_without_scapy(exchange: File) -> None:
    code = (
        "import sys; from pathlib import Path; from lab.cli.packets.dissect import dissect; "
        "dissect(Path(sys.argv[1]), summary=True); sys.exit('scapy' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code, str(exchange)], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize("mode", [["--summary"], ["--summary", "--json"], ["--json"], []])
def test_a_damaged_file_shows_its_good_part_and_names_the_damage(exchange: File, mode: list[str]) -> None:
    exchange.write_bytes(exchange.read_bytes()[:-100])
    done = dissect(exchange, *mode, expect=2)
    assert done.stderr.startswith(f"error: {exchange}: block 5 at byte ")
    assert "the file ends inside it" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    if "--json" in mode:
        assert len(json.loads(done.stdout)["packets"]) == 2
    else:
        assert "RC Acknowledge" in done.stdout


def test_links_that_are_not_read_are_counted_and_the_others_shown(tmp_path: File) -> None:
    """USB beside Ethernet: nothing is wrong with the file."""
    file = tmp_path / "a.pcapng"
    with file.open("wb", buffering=0) as output:
        writer = Writer(output)
        for name, linktype in (("eth0", 1), ("usbmon1", 220)):
            writer.add_interface(Interface(name, linktype=linktype))
        writer.write(Record(number, number % 2, 64, Direction.UNKNOWN, bytes(64)) for number in range(5))
    lines = dissect(file, "--summary")
    assert len(lines.stdout.splitlines()) == 3
    assert "2 packets of link type 220 not shown" in lines.stderr
    told = json.loads(dissect(file, "--summary", "--json").stdout)
    assert ([packet["number"] for packet in told["packets"]], told["not_decoded"]) == (
        [1, 3, 5],
        {"link type 220": 2},
    )


def test_no_file_and_no_capture_are_named(tmp_path: File) -> None:
    assert "No such file" in dissect(tmp_path / "none", expect=2).stderr
    assert "Is a directory" in dissect(tmp_path, expect=2).stderr
    text = tmp_path / "text"
    text.write_text("hello, hello, hello")
    assert "is neither pcapng nor pcap" in dissect(text, expect=2).stderr


def test_a_reader_that_leaves_is_no_error(exchange: File) -> None:
    packets = exchange.read_bytes()
    with exchange.open("wb", buffering=0) as output:
        writer = Writer(output)
        writer.add_interface(Interface("leaf1:swp1"))
        writer.write(Record(number, 0, len(WRITE), Direction.INBOUND, WRITE) for number in range(5000))
    assert exchange.stat().st_size > len(packets)
    argv = [sys.executable, "-m", "lab", "dissect", str(exchange), "--summary"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 0
