"""A BPF object's life in a real kernel: loaded, pinned, shared between processes, taken away, refused.

The judges are bpftool(8), the packets that a program sees, and the kernel's own refusals.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.errors import EnvironmentLacks, LabError, OperationFailed
from lab.kernel.bpf import array_maps, bpf_object, clang, pins, probe
from lab.kernel.bpf.probe import ProbeFinding
from lab.kernel.netlink import tc
from lab.kernel.netlink.links import LOOPBACK_INDEX, set_up
from lab.kernel.netlink.rtnl import NetlinkBatch
from lab.kernel.process import netns, process
from lab.kernel.process.netns import Namespace
from tests.inside import entered

pytestmark = pytest.mark.vm

SAMPLE = Path(__file__).parents[1] / "bpf/sample.bpf.c"
CHECKOUT = Path(__file__).parents[3]
ORDER = np.dtype([("verdict", "u4"), ("seen", "u4"), ("unused", "u4")])
FOLDER = pins.folder_of("bpf-test")
KIND = "rl_test"
ROLES, ROLE, STEP = 3, 2, 10
TC_ACT_OK, TC_ACT_SHOT = 0, 2

LOAD_AND_WAIT = """
import sys
from pathlib import Path
from lab.kernel.bpf import bpf_object
with bpf_object.Object.open(Path(sys.argv[1])) as sample:
    sample.load()
    sample.attach_struct_ops("drop_all")
    print("loaded", flush=True)
    sys.stdin.read()
"""
READ_AND_ORDER = """
import os, sys
from pathlib import Path
from lab.kernel.bpf import array_maps, pins
descriptor = pins.open_pinned(Path(sys.argv[1]))
orders = array_maps.mapped(descriptor, [("verdict", "u4"), ("seen", "u4"), ("unused", "u4")], writable=True)
os.close(descriptor)
print(orders["seen"].tolist())
orders[2]["verdict"] = 2
"""


def bpftool(*words: str) -> list[dict[str, object]]:
    done = subprocess.run(["bpftool", "-j", *words], capture_output=True, text=True, timeout=60, check=True)
    found: list[dict[str, object]] = json.loads(done.stdout or "[]")
    return found


def struct_ops() -> set[object]:
    return {each["name"] for each in bpftool("struct_ops", "list")}


def wait_until(done: Callable[[], bool]) -> None:
    """The kernel frees programs and namespaces a little after their last user has gone."""
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, subprocess.run(["bpftool", "prog"], capture_output=True, check=False)
        os.sched_yield()


def python(script: str, *words: str | Path) -> str:
    argv = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, cwd=CHECKOUT).stdout


@pytest.fixture(scope="module")
def sample() -> Path:
    """The object file."""
    return clang.compile_bpf(SAMPLE)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A namespace whose loopback is up."""
    space = Namespace(f"rv-{os.getpid()}-bpf")
    netns.create([space.name])
    with entered(space):
        batch = NetlinkBatch()
        set_up(batch, LOOPBACK_INDEX, "lo")
        batch.commit()
    yield space
    netns.delete([space.name])


@pytest.fixture
def pinned(sample: Path, namespace: Namespace) -> Iterator[Namespace]:
    """The sample pinned and attached to the loopback of a namespace; the process that loaded it has let go of it."""
    with bpf_object.Object.open(sample) as loaded:
        loaded.resize("orders", ROLES)
        loaded.set_constant("role", ROLE.to_bytes(4, sys.byteorder))
        loaded.set_constant("step", STEP.to_bytes(8, sys.byteorder))
        loaded.set_qdisc_id("drop_all", KIND)
        loaded.load()
        loaded.attach_struct_ops("drop_all")
        loaded.pin(FOLDER, "vmtest")
        with entered(namespace):
            batch = NetlinkBatch()
            tc.add_clsact(batch, LOOPBACK_INDEX)
            tc.add_bpf_egress(batch, LOOPBACK_INDEX, loaded.program("obey"), "obey")
            batch.commit()
    yield namespace
    pins.unpin(FOLDER)


def array(name: str, layout: np.dtype[Any] | str) -> NDArray[Any]:
    descriptor = pins.open_pinned(pins.map_path(FOLDER, name))
    try:
        return array_maps.mapped(descriptor, layout, writable=True)
    finally:
        os.close(descriptor)


def arrives(namespace: Namespace) -> bool:
    """Whether a ping through the loopback comes back."""
    return namespace.run(["ping", "-c1", "-W0.3", "127.0.0.1"], check=False).returncode == 0


class TestPinned:
    def test_its_map_is_shared_with_the_program_and_with_another_process(self, pinned: Namespace) -> None:
        orders = array("orders", ORDER)
        assert orders.shape == (ROLES,)
        assert arrives(pinned)
        assert orders["seen"].tolist() == [0, 0, 2]  # the request and its reply
        assert python(READ_AND_ORDER, pins.map_path(FOLDER, "orders")) == "[0, 0, 2]\n"
        assert orders[ROLE]["verdict"] == TC_ACT_SHOT
        assert not arrives(pinned)
        orders[ROLE]["verdict"] = TC_ACT_OK
        assert arrives(pinned)

    def test_its_qdisc_goes_by_the_id_it_was_given_and_sees_packets(self, pinned: Namespace) -> None:
        with entered(pinned):
            batch = NetlinkBatch()
            tc.set_root(batch, LOOPBACK_INDEX, KIND, 7)
            batch.commit()
        (qdisc,) = json.loads(pinned.run(["tc", "-json", "qdisc", "show", "dev", "lo", "root"]).stdout)
        assert (qdisc["kind"], qdisc["handle"]) == (KIND, "7:")
        assert not arrives(pinned)
        assert array("dropped", "u8").tolist() == [STEP]

    def test_nothing_is_left_when_the_pins_and_the_interface_have_gone(self, pinned: Namespace) -> None:
        assert struct_ops() == {"drop_all"}
        assert {path.name for path in FOLDER.rglob("*") if not path.is_dir()} == {
            *("orders", "dropped", "hidden"),
            "obey",
            "drop_all",
        }
        with entered(pinned):
            batch = NetlinkBatch()
            tc.set_root(batch, LOOPBACK_INDEX, KIND, 7)
            batch.commit()
        pins.unpin(FOLDER)
        assert not pins.ROOT.exists()
        assert arrives(pinned) is False  # what an interface has stays as long as the interface
        netns.delete([pinned.name])
        wait_until(lambda: not struct_ops())
        wait_until(lambda: "obey" not in {program.get("name") for program in bpftool("prog", "list")})
        wait_until(lambda: "orders" not in {each.get("name") for each in bpftool("map", "list")})

    def test_a_connection_that_outlives_its_program_does_not_keep_them(self, pinned: Namespace) -> None:
        """For minutes it would send what it has, to nobody, in a namespace that nobody finds any more."""
        with entered(pinned), socket.create_server(("127.0.0.1", 0)) as server:
            batch = NetlinkBatch()
            tc.set_root(batch, LOOPBACK_INDEX, KIND, 7)
            with socket.create_connection(server.getsockname()), server.accept()[0]:
                process.run(["ip", "link", "set", "lo", "down"])
                batch.commit()
        assert "FIN-WAIT-1" in pinned.run(["ss", "--tcp", "--all"]).stdout
        pins.unpin(FOLDER)
        netns.delete([pinned.name])
        wait_until(lambda: not struct_ops())

    def test_maps_that_are_not_what_was_expected_are_refused(self, pinned: Namespace) -> None:
        assert pinned.exists()
        with pytest.raises(OperationFailed, match="values have 12 bytes, and their description 16"):
            array("orders", "2u8")
        with pytest.raises(OperationFailed, match="the map cannot be mapped into memory"):
            array("hidden", "u8")
        with pytest.raises(OperationFailed, match=r"maps/counters cannot be opened: No such file or directory"):
            array("counters", "u8")

    def test_two_of_one_name_are_refused(self, pinned: Namespace, sample: Path) -> None:
        assert pinned.exists()
        with bpf_object.Object.open(sample) as other:
            other.set_qdisc_id("drop_all", KIND)
            other.load()
            with pytest.raises(OperationFailed, match="drop_all cannot be registered with the kernel: File exists"):
                other.attach_struct_ops("drop_all")
            with pytest.raises(OperationFailed, match=r"bpf-test exists: rocelab down"):
                other.pin(FOLDER, "vmtest")


def test_what_cannot_be_pinned_whole_is_not_pinned(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "link_path", lambda folder, name: folder / "links.of" / name)
    with bpf_object.Object.open(sample) as loaded:
        loaded.load()
        loaded.attach_struct_ops("drop_all")
        with pytest.raises(OperationFailed, match=r"cannot be pinned below .*/bpf-test: "):
            loaded.pin(FOLDER, "vmtest")
    assert not pins.ROOT.exists()
    wait_until(lambda: not struct_ops())


def test_a_killed_loader_leaves_nothing(sample: Path) -> None:
    argv = [sys.executable, "-c", LOAD_AND_WAIT, str(sample)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as loader:
        assert loader.stdout is not None
        assert loader.stdout.readline() == "loaded\n"
        assert struct_ops() == {"drop_all"}
        loader.send_signal(signal.SIGKILL)
    wait_until(lambda: not struct_ops())
    assert not pins.ROOT.exists()


def test_the_probe_really_tries_and_leaves_nothing() -> None:
    assert probe.bpf_qdisc() == ProbeFinding(True)
    wait_until(lambda: not struct_ops())


def changed(original: Path, copy: Path, *changes: tuple[str, str]) -> Path:
    """A copy, source or object, in which some words are others."""
    content = original.read_bytes()
    for old, new in changes:
        assert old.encode() in content
        content = content.replace(old.encode(), new.encode())
    copy.write_bytes(content)
    return copy


def refusal(path: Path) -> LabError:
    with bpf_object.Object.open(path) as refused, pytest.raises(LabError) as failure:
        refused.load()
    return failure.value


def test_the_verifier_s_reason_is_told_and_its_log_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    unchecked = ("if (!order)\n\t\treturn -1;\n", "")
    unknown = ("const volatile __u32 role = 0", "volatile __u32 role")  # a key that is known is known to be there
    source = changed(SAMPLE, tmp_path / "wild.bpf.c", unchecked, unknown)
    line = 1 + next(n for n, text in enumerate(source.read_text().split("\n")) if "->seen" in text)
    error = refusal(clang.compile_bpf(source))
    assert isinstance(error, OperationFailed)
    assert error.message.startswith("the verifier refuses program obey: ")
    assert error.message.endswith(f"map_value_or_null' (wild.bpf.c:{line})")
    log = Path(error.remedy.removeprefix("its log is in "))
    assert "invalid mem access 'map_value_or_null'" in log.read_text()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("Qdisc_ops", "Qdisc_opt"), "Qdisc_opt is not found in kernel BTF"),
        (("bpf_qdisc_skb_drop", "bpf_qdisc_skb_toss"), "'bpf_qdisc_skb_toss': not found in kernel"),
    ],
)
def test_what_this_kernel_has_not_got_is_named(
    sample: Path, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    error = refusal(changed(sample, tmp_path / "newer.o", change))
    assert isinstance(error, EnvironmentLacks), error
    assert reason in error.message
    assert "--vm" in error.remedy


@pytest.mark.parametrize("content", [None, b"", b"not an object", b"\x7fELF" + bytes(60)])
def test_a_file_that_is_no_object_is_one_clear_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "wrong.o"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OperationFailed, match=r"wrong\.o cannot be opened as a BPF object: ") as failure:
        bpf_object.Object.open(path)
    assert "\n" not in str(failure.value)
    assert "libbpf error" not in str(failure.value)


def test_names_that_the_object_or_the_kernel_does_not_know(sample: Path) -> None:
    with bpf_object.Object.open(sample) as opened:
        with pytest.raises(OperationFailed, match=r"has no map nothing$"):
            opened.resize("nothing", 3)
        with pytest.raises(OperationFailed, match=r"no variable nothing in \.rodata$"):
            opened.set_constant("nothing", b"")
        with pytest.raises(OperationFailed, match=r"^step takes 8 bytes, not 4$"):
            opened.set_constant("step", bytes(4))
        with pytest.raises(OperationFailed, match=r"has no program nothing$"):
            opened.program("nothing")
        for identity in ("rl-clos", "", "sixteen_letters_", "ümlaut"):
            with pytest.raises(OperationFailed, match="is no id of a qdisc"):
                opened.set_qdisc_id("drop_all", identity)
