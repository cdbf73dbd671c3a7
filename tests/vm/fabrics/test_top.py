"""What rocelab top shows of a fabric as it runs: rates of a port are those of tc(8), over the same time.

A terminal is driven by pexpect; the judge of figures is tc, in virtual time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

from tests.fabric.command import ROOT, argv, forked, rocelab_json

if TYPE_CHECKING:
    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(900)]
NAME = "incast"
SINK = "leaf1:swp6"
WRITE = ("rdma", "bw", "h1", "h4", "--duration", "8s")


def sent(fabric: Fabric) -> tuple[int, int]:
    """Bytes that tc says have left by the port, and when that was (ns of CLOCK_MONOTONIC)."""
    node, _, interface = SINK.partition(":")
    said = fabric.namespace(node).run(["tc", "-j", "-s", "qdisc", "show", "dev", interface]).stdout
    return next(qdisc["bytes"] for qdisc in json.loads(said) if qdisc.get("root")), time.monotonic_ns()


def tracked(fabric: Fabric, host: str) -> set[tuple[int, str, str, int, str]]:
    """The queue pairs of programs that rdma(8) says a host's device has: QPN, type, state, the far QPN, whose."""
    words = ["rdma", "-j", "res", "show", "qp", "link", f"{NAME}.{host}.eth1/1"]
    found = json.loads(fabric.namespace(host).run(words).stdout)
    return {
        (each["lqpn"], each["type"], each["state"], each["rqpn"], each["comm"])
        for each in found
        if each["type"] != "GSI"
    }


def samplers() -> list[str]:
    """Command lines of samplers that run for somebody who watches."""
    found = subprocess.run(["pgrep", "-af", "top --stream"], capture_output=True, text=True, check=False).stdout
    return [line for line in found.splitlines() if "pgrep" not in line]


def test_a_ports_rate_is_what_the_kernel_counted_over_the_same_time(incast: Fabric) -> None:
    with forked(*WRITE) as writer:
        idle = sent(incast)[0]
        while sent(incast)[0] < idle + 1_000_000:
            time.sleep(0.1)
        before, began = sent(incast)
        told = rocelab_json("top", "--fabric", NAME)
        after, ended = sent(incast)
        shown = {host: tracked(incast, host) for host in ("h1", "h4")}
        assert not writer.is_over()
        writer.send_signal(signal.SIGINT)
        writer.end(60)
    average = (after - before) * 8 / ((ended - began) / 1e9)
    assert began < told["ns"] - told["seconds"] * 1e9 < told["ns"] < ended
    assert told["seconds"] == pytest.approx(1.0, abs=0.1)
    port = told["ports"][SINK]
    assert port["tx_bps"] == pytest.approx(average, rel=0.03)
    rate = next(link.rate for link in incast.topology.links if SINK in map(str, link.ends))
    assert 0.8 * rate < port["tx_bps"] <= rate
    assert told["ports"]["h4:eth1"]["rx_bps"] == pytest.approx(port["tx_bps"], rel=0.02)
    assert told["devices"]["h4:eth1"]["rx_bps"] == pytest.approx(port["tx_bps"], rel=0.05)
    assert told["ports"]["h3:eth1"]["tx_bps"] < rate / 1000
    assert {session["state"] for session in told["sessions"]} == {"Established", "up"}
    assert samplers() == []
    queue_pairs = {
        host: {(each["qpn"], each["type"], each["state"], each["remote_qpn"], each["program"])
               for each in told["queue_pairs"] if each["node"] == host}
        for host in shown
    }  # fmt: skip
    assert queue_pairs == shown
    assert {len(found) for found in shown.values()} == {1}
    assert {each["node"] for each in told["queue_pairs"]} == {"h1", "h4"}


@pytest.mark.long
@pytest.mark.usefixtures("incast")
def test_on_a_terminal_it_shows_the_ports_and_leaves_nothing_behind() -> None:
    words = argv("top", "--fabric", NAME)
    child: Any = pexpect.spawn(words[0], words[1:], timeout=300, dimensions=(30, 120), cwd=str(ROOT))
    child.expect_exact("\x1b[?1049h")
    child.expect_exact("spine1:swp1")
    assert len(samplers()) > 0
    child.send("q")
    child.expect_exact("\x1b[?1049l")
    child.expect(pexpect.EOF)
    child.wait()
    assert (child.exitstatus, child.signalstatus) == (0, None)
    assert samplers() == []


@pytest.mark.long
def test_who_only_reads_samples_ends_them_by_leaving(incast: Fabric) -> None:
    stream = argv("top", "--stream", "--fabric", incast.name)
    with subprocess.Popen(stream, stdout=subprocess.PIPE, cwd=ROOT) as sampler:
        assert sampler.stdout is not None
        assert os.read(sampler.stdout.fileno(), 4) == b"RTL1"
        sampler.stdout.close()
        assert sampler.wait(60) == 0
    assert samplers() == []
