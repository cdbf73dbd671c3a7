"""The life of the VM on the host: built, up, commands in it, down, and up again after a violent end."""

import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.host.vm_state import process_start
from lab.vm.image import host_bytecode
from lab.vm.image.arch import host_arch
from lab.vm.image.recipe import cache_root, current_recipe, image_of
from tests.patience import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
ANN = "4711:4712"
"""A user of this machine, who need not have a name."""


class Vm:
    """``rocelab vm`` with a state folder of the test's own, so that the user's VM is left alone."""

    def __init__(self, state: Path, checkpoints: Path | str = "", checkout: Path = ROOT) -> None:
        own = {"ROCELAB_VM_STATE": str(state), "PYTHONPATH": str(checkout)}
        kept = {"ROCELAB_CHECKPOINTS": str(checkpoints)} if checkpoints else {}
        self.environment = {**os.environ, **own, **kept}

    def start(self, *words: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
        argv = [sys.executable, "-P", "-m", "lab", "vm", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, cwd=cwd, env=self.environment)

    def __call__(self, *words: str, expect: int = 0, cwd: Path = ROOT) -> str:
        process = self.start(*words, cwd=cwd)
        out, err = process.communicate(timeout=1200)
        assert process.returncode == expect, f"{words} ended with {process.returncode}: {out}{err}"
        return out

    def status(self) -> Any:
        return json.loads(self("status", "--json"))


@pytest.fixture(scope="module")
def vm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vm]:
    """For the tests that end it. Without KVM it continues from the VM that has booted last, whoever started that."""
    machine = Vm(tmp_path_factory.mktemp("ending") / "state")
    yield machine
    machine("down")


@pytest.fixture
def booting(tmp_path: Path) -> Iterator[Vm]:
    """A VM that boots, and that no other VM resumes from."""
    machine = Vm(tmp_path / "state", "0")
    yield machine
    machine("down")


COMPILE = """
from pathlib import Path
from lab.kernel.bpf.clang import compile_bpf
built = compile_bpf(Path("/rocelab/tests/vm/bpf/sample.bpf.c"))
print(built, built.stat().st_mtime_ns)
"""


def test_life_and_what_is_compiled_in_the_guest_is_there_in_the_next_vm(vm: Vm) -> None:
    """BPF objects: without KVM one takes clang up to twelve seconds."""
    assert not vm.status()["up"]
    vm("up")
    status = vm.status()
    assert status["up"]
    assert status["image_current"]
    process = Path("/proc", str(status["pid"]), "status").read_text(encoding="ascii").split()
    assert process[process.index("Seccomp:") + 1] == "2", "QEMU's system calls are not filtered"
    assert process[process.index("NoNewPrivs:") + 1] == "1"
    vm("run", "--", "true")
    vm("run", "--", "false", expect=1)
    vm("run", "--", "sh", "-c", "exit 42", expect=42)
    assert vm("run", "--", "printf", "[%s]", "a b", "$HOME", "it's", "*", "") == "[a b][$HOME][it's][*][]"
    assert vm("run", "--", "uname", "-r").strip() == status["kernel"]
    compiled = vm("run", "--", "python3", "-c", COMPILE)
    assert compiled.startswith("/root/.cache/rocelab/bpf/sample.bpf-")
    vm("down")
    assert process_start(status["pid"]) is None
    assert not vm.status()["up"]
    vm("down")
    assert vm("run", "--", "python3", "-c", COMPILE) == compiled


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vm]:
    """A VM in virtual time that is up, and that several tests use."""
    machine = Vm(tmp_path_factory.mktemp("virtual") / "state")
    machine("up", "--time", "virtual")
    yield machine
    machine("down")


def test_virtual_time_is_said_and_is_not_the_hosts(guest: Vm) -> None:
    status = guest.status()
    assert (status["time"], status["accel"], status["cpus"]) == ("virtual", "tcg", 1)
    guest("up")
    guest("up", "--time", "virtual")
    guest("up", "--time", "host", expect=2)
    guest("up", "--name", "other", "--time", "virtual", "--cpus", "2", expect=2)


def test_folders_that_are_shared_are_mounted_once_however_often_that_is_asked_for(guest: Vm) -> None:
    """A mount over a folder above a share hides the share, as the checkout's mount hides the recordings'."""
    again = "cat /proc/mounts; echo ---; /usr/local/lib/rocelab/shares mount && cat /proc/mounts"
    before, after = guest("run", "--", "sh", "-c", again).split("---\n")
    assert after == before
    assert before.count(" 9p ") > 3


CLOCKS = """
import json, time
from lab.kernel.process import tsc
def loop():
    began, count = time.process_time_ns(), 0
    for _ in range(80_000): count += 1
    return time.process_time_ns() - began
first = tsc.read()
took = min(loop() for _ in range(5))
print(json.dumps({"hz": tsc.frequency(first, tsc.read()), "took": took}))
"""
"""Interrupts are charged to a loop, also those of what still starts: the shortest of five has the fewest."""


def test_in_virtual_time_work_takes_as_long_on_a_busy_host(guest: Vm) -> None:
    """The CPU's time of a loop is that of its instructions, and all clocks agree: a cycle is a nanosecond."""

    def clocks() -> dict[str, float]:
        found: dict[str, float] = json.loads(guest("run", "--", "python3", "-c", CLOCKS))
        assert found["hz"] == pytest.approx(1e9, rel=1e-5)
        return found

    quiet = clocks()
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        busy = clocks()
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    # in the host's time three loops on two CPUs double it
    assert busy["took"] == pytest.approx(quiet["took"], rel=0.15)


def test_a_terminal_in_the_guest_is_the_callers(guest: Vm) -> None:
    """Its size, its keys and the exit code: ``rocelab vm shell`` on a terminal of this test's."""
    argv = ["-m", "lab", "vm", "run", "--", "bash", "--norc", "-i"]
    shell = pexpect.spawn(
        sys.executable, argv, env=guest.environment, cwd=str(ROOT), dimensions=(31, 97), encoding="utf-8", timeout=120
    )
    shell.sendline("stty size; tty")
    shell.expect("31 97\r\n/dev/pts/")
    # Ctrl-C goes to whom the terminal is: to bash until it has handed it to what it starts.
    shell.sendline("sh -c 'echo begun; exec sleep 1000'")
    shell.expect("begun\r\n")
    shell.sendintr()
    shell.sendline("exit $(($? - 100))")
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.exitstatus == 30


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["status", "--fabric", "nobody"], 2),
        pytest.param(["ls"], 0, marks=pytest.mark.long),
        pytest.param(["doctor", "--json"], 0, marks=pytest.mark.long),
    ],
)
def test_the_resident_answers_as_a_new_process_does(guest: Vm, words: list[str], code: int) -> None:
    """The same output, errors and exit code both ways; and the one that is resident is there.

    tests/unit/vm/test_call.py has other commands of both kinds, and a process there costs no minute of emulation.
    """
    answers = []
    for resident in ("1", "0"):
        argv = [sys.executable, "-m", "lab", "--vm", *words]
        environment = {**guest.environment, "ROCELAB_RESIDENT": resident}
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
        said = [line for line in done.stderr.splitlines() if not line.startswith("vm: took ")]  # over 10 s
        answers.append((done.returncode, done.stdout, said))
    assert answers[0] == answers[1]
    assert answers[0][0] == code
    assert guest("run", "--", "pgrep", "-c", "-f", "lab.cli.resident").strip() == "1"


def test_named_vms_are_side_by_side(guest: Vm) -> None:
    guest("up", "--name", "second", "--time", "virtual")
    try:
        guest("run", "--", "touch", "/root/mine")
        guest("run", "--name", "second", "--", "test", "-e", "/root/mine", expect=1)
        assert [machine["name"] for machine in json.loads(guest("ls", "--json"))] == ["", "second"]
    finally:
        guest("down", "--name", "second")
    assert guest.status()["up"]
    guest("up", "--name", "No/name", expect=2)


def test_guest_is_what_a_lab_needs(guest: Vm) -> None:
    vm = guest
    vm("run", "--", "test", "-c", "/dev/infiniband/rdma_cm")
    vm("run", "--", "grep", "-q", "CONFIG_NET_SCH_BPF=y", f"/boot/config-{vm.status()['kernel']}")
    assert "Network is unreachable" in vm("run", "--", "sh", "-c", "ping -c1 192.0.2.1 2>&1; true")
    assert vm("run", "--", "python3", "-c", "import lab, scapy, pydantic, pytest; print(lab.__file__)").startswith(
        str(ROOT)
    )
    assert vm("run", "--", "rocelab", "--version").startswith("rocelab ")
    # Emulated code is translated once only where it is always at the same address.
    assert vm("run", "--", "cat", "/proc/sys/kernel/randomize_va_space") == "0\n"


def test_the_images_interpreter_compiles_for_the_guest_on_the_host(guest: Vm, tmp_path: Path) -> None:
    """The guest takes its bytecode: it has the guest's magic number, and the source's time and size.

    The archive of all modules, from which the resident imports, is of this code.
    """
    source = tmp_path / "module.py"
    source.write_text("answer = 42\n")
    interpreter = host_bytecode.interpreter(image_of(current_recipe()), host_arch())
    subprocess.run([*host_bytecode.compiler(interpreter, tmp_path / "cache"), source], check=True)
    (made,) = (tmp_path / "cache").rglob("*.pyc")
    magic = bytes.fromhex(
        guest("run", "--", "python3", "-c", "import importlib.util as util; print(util.MAGIC_NUMBER.hex())").strip()
    )
    status = source.stat()
    assert made.read_bytes()[:16] == struct.pack("<4sIII", magic, 0, int(status.st_mtime), status.st_size)
    archived = "from lab.vm.guest.archived_modules import archived_code; print(archived_code())"
    assert guest("run", "--", "python3", "-c", archived).strip() == of_code()


def test_files_of_any_folder_go_in_and_results_come_back(guest: Vm, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((ROOT / "topologies/one-leaf.yaml").read_text())
    assert guest("run", "--", "rocelab", "topology", "check", "mine.yaml", cwd=tmp_path).startswith("mine.yaml: ok")
    graph = ("run", "--", "rocelab", "topology", "graph", str(tmp_path / "mine.yaml"), "-o")
    guest(*graph, "mine.svg", cwd=tmp_path)
    guest(*graph, str(tmp_path / "again.svg"))
    assert "<svg" in (tmp_path / "mine.svg").read_text()
    assert (tmp_path / "mine.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


@pytest.mark.long
def test_files_written_in_the_guest_are_on_the_host(booting: Vm, tmp_path: Path) -> None:
    """CI has that in the VM of another user, below."""
    shared = tmp_path / "my captures"
    shared.mkdir()
    booting("up", "--share", str(shared), "--memory", "1024")
    booting("run", "--", "sh", "-c", "echo from the guest > out.txt", cwd=shared)
    assert (shared / "out.txt").read_text() == "from the guest\n"
    total = int(booting("run", "--", "awk", '$1 == "MemTotal:" { print $2 }', "/proc/meminfo"))
    assert 768 < total / 1024 < 1024  # what the kernel keeps for itself is not in it
    booting("up", "--share", str(tmp_path), expect=2)


WRITES = """
cd {checkout}
mount -o remount,rw . && mount -o remount,rw /rocelab
grep -c '^checkout .* 9p rw,' /proc/mounts
for path in lab/errors.py scripts/setup new; do
    ! echo mine >> $path || echo $path was written
    ! echo mine >> /rocelab/$path || echo /rocelab/$path was written
done
! mv lab mine && ! rm scripts/setup && ! chmod 777 scripts/setup && ! ln scripts/setup linked && ! mkdir new
echo kept > recordings/{name} && cat /rocelab/recordings/{name}
"""


def test_the_guests_root_cannot_write_to_the_checkout(guest: Vm) -> None:
    """Also where it takes its own mounts for writable: QEMU says no. What is recorded there is written."""
    name = f"walls-{os.getpid()}"
    before = (ROOT / "lab/errors.py").read_bytes()
    script = WRITES.format(checkout=ROOT, name=name)
    try:
        program = guest.start("run", "--", "sh", "-c", script)
        out, err = program.communicate(timeout=1200)
        assert (program.returncode, out) == (0, "2\nkept\n"), err
        assert err.count("Read-only file system") == 11
        assert (ROOT / "recordings" / name).read_text() == "kept\n"
    finally:
        (ROOT / "recordings" / name).unlink(missing_ok=True)
    assert (ROOT / "lab/errors.py").read_bytes() == before
    assert not (ROOT / "new").exists()


def test_what_is_written_to_the_checkout_is_brought_there(guest: Vm) -> None:
    name = f"walls-{os.getpid()}"
    try:
        guest("run", "-o", name, "--", "sh", "-c", 'echo named > "$1"', "sh", name)
        assert (ROOT / name).read_text() == "named\n"
    finally:
        (ROOT / name).unlink(missing_ok=True)


@pytest.mark.long
def test_a_folder_in_the_checkout_is_written_to_where_it_is_asked_for(booting: Vm) -> None:
    folder = ROOT / f"walls-{os.getpid()}"
    folder.mkdir()
    try:
        booting("up", "--share", str(folder))
        booting("run", "--", "sh", "-c", "echo asked > out; ! touch ../new", cwd=folder)
        assert (folder / "out").read_text() == "asked\n"
    finally:
        shutil.rmtree(folder)
    booting("down")
    booting("up", "--share", str(ROOT), expect=2)


@pytest.fixture
def anns(tmp_path: Path) -> Iterator[tuple[Vm, Path]]:
    """A VM that root starts from the checkout of another user, and the checkout.

    The guest would take a minute to compile it, and a minute to find its modules.
    """
    checkout = tmp_path / "rocelab"
    for part in ("lab", "scripts"):
        shutil.copytree(ROOT / part, checkout / part, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chown", "-R", ANN, checkout], check=True)
    machine = Vm(tmp_path / "state", tmp_path / "checkpoints", checkout)
    machine("build")
    image = image_of(current_recipe())
    bytecode = image.folder / f"guest-cache-{ANN.partition(':')[0]}" / host_bytecode.BYTECODE
    host_bytecode.compile_modules(image, host_arch(), ROOT)
    compiled = image.guest_cache / host_bytecode.BYTECODE / ROOT.relative_to("/") / "lab"
    shutil.copytree(compiled, bytecode / checkout.relative_to("/") / "lab")
    host_bytecode.pack_modules(bytecode, checkout)
    subprocess.run(["chown", "-R", ANN, bytecode], check=True)
    yield machine, checkout
    machine("down")
    for left in (tmp_path / "checkpoints", *cache_root().glob(f"*/guest-cache-{ANN.partition(':')[0]}")):
        shutil.rmtree(left)


MAKE = """
echo mine > program; chown 1:1 program; chmod 4755 program; stat -c %u:%a program
ln -s /etc/shadow link; readlink link
mknod device b 8 0; stat -c %F device
"""


def test_qemu_is_whom_the_checkout_belongs_to_and_so_is_what_the_guests_root_makes(
    anns: tuple[Vm, Path], tmp_path: Path
) -> None:
    """Judged by what the kernel says of the process, and by the files on the host."""
    vm, checkout = anns
    shared = tmp_path / "my captures"
    shared.mkdir()
    os.chown(shared, *map(int, ANN.split(":")))
    up = ("up", "--time", "virtual", "--share", str(shared), "--memory", "1024")
    vm(*up)
    lines = Path("/proc", str(vm.status()["pid"]), "status").read_text(encoding="ascii").splitlines()
    process = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    user, group = ANN.split(":")
    assert [process[name].split() for name in ("Uid", "Gid", "Groups")] == [[user] * 4, [group] * 4, [group]]
    assert (process["CapPrm"], process["Seccomp"], process["NoNewPrivs"]) == ("0" * 16, "2", "1")
    seen = vm("run", "--", "sh", "-ec", MAKE, cwd=checkout / "recordings")
    assert seen.split("\n") == ["1:4755", "/etc/shadow", "block special file", ""]
    for name in ("program", "link", "device"):
        made = (checkout / "recordings" / name).lstat()
        assert (stat.filemode(made.st_mode), made.st_uid, made.st_gid) == ("-rw-r-----", *map(int, (user, group)))
    script = "echo result > result; echo all: > Makefile; ln -s result link"
    vm("run", "-o", "result", "-o", "link", "--", "sh", "-ec", script, cwd=tmp_path)
    assert (tmp_path / "result").read_text() == "result\n"
    assert not os.path.lexists(tmp_path / "link")
    assert not (tmp_path / "Makefile").exists()
    vm("run", "--", "sh", "-c", "echo from the guest > out.txt", cwd=shared)
    assert (shared / "out.txt").read_text() == "from the guest\n"
    total = int(vm("run", "--", "awk", '$1 == "MemTotal:" { print $2 }', "/proc/meminfo"))
    assert 768 < total / 1024 < 1024  # what the kernel keeps for itself is not in it
    vm("up", "--share", str(tmp_path), expect=2)
    # Its state is saved into a folder that its user may not enter, and continued from.
    vm("down")
    vm(*up)
    assert vm.status()["checkpoint"].startswith("booted-")
    assert vm("run", "--", "cat", str(checkout / "recordings/program")) == "mine\n"


def test_signals_reach_the_command(guest: Vm) -> None:
    script = "trap 'echo got it; exit 7' INT; echo ready; while :; do sleep 0.1; done"
    process = guest.start("run", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (7, "got it\n")


def test_a_killed_vm_is_down_and_comes_up_again(vm: Vm) -> None:
    vm("up")
    pid = vm.status()["pid"]
    process = vm.start("run", "--", "sh", "-c", "echo ready; sleep 100")
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "the VM ended while sh ran" in err
    assert not vm.status()["up"]
    vm("run", "--", "true")
    assert vm.status()["pid"] != pid


def test_many_commands_start_one_vm(vm: Vm) -> None:
    """All of them have run in the VM that is up in the end."""
    vm("down")
    processes = [vm.start("run", "--", "sh", "-c", "echo here >>/root/commands") for _ in range(4)]
    said = [process.communicate(timeout=1200) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, said
    assert vm("run", "--", "cat", "/root/commands") == "here\n" * 4
