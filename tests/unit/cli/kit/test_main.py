"""How errors end a command: a line for people, and JSON for programs that asked for it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lab.backends import fabric_state
from lab.cli.app import main
from lab.cli.command_registry import COMMANDS
from lab.cli.kit.output import JsonStream
from lab.errors import Interrupted, LabError
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcap

if TYPE_CHECKING:
    from collections.abc import Iterator


def failed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Any, str, str]:
    """The exit code of a command line, and what it said on both streams."""
    monkeypatch.setattr(sys, "argv", ["rocelab", *words])
    monkeypatch.setattr("lab.cli.app.signal.signal", lambda *_: None)
    monkeypatch.setattr(JsonStream, "begun", False)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_an_error_is_json_where_json_was_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = str(tmp_path / "none.yaml")
    code, out, _ = failed(capsys, monkeypatch, "topology", "show", missing, "--json")
    assert json.loads(out) == {
        "error": {
            "kind": "UsageError",
            "message": f"there is no file {missing}",
            "remedy": "name a topology file; rocelab examples copy has some",
            "exit_code": 2,
        }
    }
    assert code == 2
    assert failed(capsys, monkeypatch, "topology", "show", missing)[1] == ""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("inspect --bogus", "rocelab inspect: no such option: --bogus"),
        ("topology show", "rocelab topology show: missing argument 'file'"),
        ("rdma bw h1 h4 --qps many", "rocelab rdma bw: invalid value for '--qps': "),
    ],
)
def test_a_command_line_that_cannot_be_is_told_as_other_errors_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, told: str
) -> None:
    code, out, err = failed(capsys, monkeypatch, *line.split(), "--json")
    error = json.loads(out)["error"]
    assert (code, error["kind"], error["exit_code"]) == (2, "UsageError", 2)
    assert error["message"].startswith(told)
    assert error["remedy"] == f"{told.partition(':')[0]} --help lists what it takes"
    assert err == f"error: {error['message']}: {error['remedy']}\n"
    assert failed(capsys, monkeypatch, *line.split()) == (2, "", err)


@pytest.mark.parametrize(("line", "code"), [("", 2), ("rdma", 2), ("rdma --help", 0), ("--version", 0)])
def test_who_asks_for_help_gets_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, code: int
) -> None:
    ended, out, err = failed(capsys, monkeypatch, *line.split())
    assert (ended, "error" in err) == (code, False)
    assert "rocelab" in out + err


def test_all_problems_of_a_file_are_in_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: Bad\ngenerate: {shape: leaf-spine, spines: 0, leaves: 2}\n", encoding="utf-8")
    _, out, err = failed(capsys, monkeypatch, "topology", "show", str(file), "--json")
    error = json.loads(out)["error"]
    assert error["source"] == str(file)
    assert [(each["path"], each["line"]) for each in error["problems"]] == [("name", 1), ("generate.spines", 2)]
    assert err.count("\n") == 2


def test_json_for_a_program_in_a_node_is_not_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lab.backends.fabric_state.FABRICS", tmp_path / "fabrics")
    code, out, err = failed(capsys, monkeypatch, "exec", "h1", "--", "ip", "--json")
    assert (code, out) == (2, "")
    assert err.startswith("error: no fabric runs")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("link", "leaf1:swp1", "down"),
            "there is no command link: rocelab fault inject link-down leaf1:swp1 takes a",
        ),
        (("ping", "h1"), "there is no command ping: it runs in a node: rocelab exec h1 -- ping ..."),
        (("list",), "there is no command list: rocelab ls lists fabrics"),
    ],
)
def test_words_that_one_tries_first_are_answered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    code, _, err = failed(capsys, monkeypatch, *words)
    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("countrs", "there is no command countrs: did you mean 'counters'?"),
        ("rmda bw h1 h4", "there is no command rmda: did you mean 'rdma'?"),
        ("frobnicate", "there is no command frobnicate: rocelab --help lists all commands"),
        ("fault injct x", "rocelab fault: no such command 'injct': did you mean 'inject'?"),
        ("topology svg a.yaml", "rocelab topology: no such command 'svg': it has check, show, graph, schema, new"),
        ("vm checkpoint sav", "rocelab vm checkpoint: no such command 'sav': did you mean 'save'?"),
        ("status --fabrik x", "rocelab status: no such option: --fabrik: did you mean '--fabric'?"),
        (
            "craft write --opcode 10",
            "rocelab craft: no such option: --opcode: the opcode is the KIND: rocelab craft write, for example",
        ),
        ("craft write --mtu 1024", "rocelab craft: no such option: --mtu: rocelab craft --help lists what it takes"),
        ("craft write --qpn 7", "rocelab craft: no such option: --qpn: did you mean '--qp'?"),
        ("rdma bw h1 h4 --par x", "rocelab rdma bw: no such option: --par: did you mean '--pair'?"),
    ],
)
def test_a_typing_error_is_answered_by_what_was_meant(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, told: str
) -> None:
    assert failed(capsys, monkeypatch, *line.split()) == (2, "", f"error: {told}\n")


@pytest.mark.parametrize("group", ["rdma", "qos", "vm", "topology", "scenario"])
def test_only_rocelab_itself_installs_completion(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    assert "--install-completion" not in failed(capsys, monkeypatch, group, "--help")[1]
    assert "--install-completion" in failed(capsys, monkeypatch, "--help")[1]


def test_suggested_commands_exist_and_the_words_are_none() -> None:
    suggestions = [entry.suggestion for entry in COMMANDS.values() if entry.suggestion]
    assert {word for each in suggestions for word in re.findall(r"rocelab ([a-z]+)", each.remedy)} <= set(COMMANDS)
    words = [word for each in suggestions for word in each.words]
    assert not set(words) & set(COMMANDS)
    assert len(words) == len(set(words))


@pytest.mark.parametrize("option", ["--debug", "--json"])
@pytest.mark.parametrize(
    "line",
    ["exec nosuch -- x {}", "exec nosuch x {}", "exec --fabric nosuch h1 -- x {}", "vtysh nosuch -- {}",
     "shell nosuch -- {}", "vm run --name nosuch/name x {}"],
)  # fmt: skip
def test_options_of_the_program_that_is_to_run_are_not_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, option: str
) -> None:
    monkeypatch.setenv("ROCELAB_VM", "0")
    code, out, err = failed(capsys, monkeypatch, *line.format(option).split())
    assert code in {1, 2, 4}
    assert out == ""
    assert err.startswith("error: ")


def test_our_own_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rocelab", "--debug", "--no-vm", "exec", "nosuch", "--", "x"])
    monkeypatch.setattr("lab.cli.app.signal.signal", lambda *_: None)
    with pytest.raises(LabError):
        main()


INTERRUPTED = """
import builtins, os, signal
import lab.__main__
whole = builtins.__import__
def slow(name, *rest):
    if name == "lab.cli.command_groups":
        os.kill(os.getpid(), signal.SIGINT)
    return whole(name, *rest)
builtins.__import__ = slow
lab.__main__.main()
"""


def test_ctrl_c_while_rocelab_is_imported_shows_no_traceback() -> None:
    """An interrupted import would show where it was."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


UNREAD = """
from lab.cli import app
app.app = lambda **_: print("x" * 6000)
app.main()
"""
"""More than a small pipe holds, and less than Python's buffer: it is written when the command has ended."""


def test_ctrl_c_while_the_last_output_waits_for_its_reader_is_a_line() -> None:
    """A pager that is stopped does not read."""
    reader, writer = os.pipe()
    try:
        size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        argv = [sys.executable, "-c", UNREAD]
        with subprocess.Popen(argv, stdout=writer, stderr=subprocess.PIPE, text=True) as child:
            held = bytearray(4)
            while int.from_bytes(held, sys.byteorder) < size and child.poll() is None:
                fcntl.ioctl(reader, termios.FIONREAD, held)
            child.send_signal(signal.SIGINT)
            try:
                said = child.communicate(timeout=60)[1]
            finally:
                child.kill()
        assert (child.returncode, said) == (130, "error: ended by SIGINT\n")
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("qos plan --rate", "rocelab qos plan: option '--rate' requires an argument"),
        ("qos presets --diff sonic", "rocelab qos presets: option '--diff' requires 2 arguments"),
        ("status --fabric", "rocelab status: option '--fabric' requires an argument"),
    ],
)
def test_an_option_without_its_value_is_of_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, told: str
) -> None:
    code, out, err = failed(capsys, monkeypatch, *line.split())
    assert (code, out) == (2, "")
    assert err == f"error: {told}: {told.partition(':')[0]} --help lists what it takes\n"


@pytest.mark.parametrize("line", ["topology new leaf-spine", "dissect {}", "qos plan"])
def test_output_that_cannot_be_written_is_no_verdict_and_blames_no_input(line: str, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(pcap([packets.send(psn) for psn in range(20)]))
    words = line.format(capture).split()
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "lab", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    told = "error: cannot write standard output: No space left on device: redirect it to another file or disk\n"
    assert (ended.returncode, ended.stderr) == (4, told)


@pytest.mark.parametrize(("line", "code"), [("topology new leaf-spine", 4), ("dissect /nowhere.pcap", 2)])
def test_an_error_that_cannot_be_written_keeps_its_exit_code(line: str, code: int) -> None:
    """1 would mean "fail"."""
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run([sys.executable, "-m", "lab", *line.split()], stdout=full, stderr=full, check=False)
    assert ended.returncode == code


def test_closed_standard_streams_are_no_traceback() -> None:
    line = [sys.executable, "-m", "lab", "analyze", "-"]
    ended = subprocess.run(["sh", "-c", '"$@" <&- >&-', "sh", *line], stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "standard input is closed" in ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("down", "lab7"),
        ("status", "lab7"),
        ("lldp", "lab7"),
        ("congestion", "--for", "1s", "lab7"),
        ("down", "lab7.yaml"),
        ("down", "topologies/lab7.yaml"),
    ],
)
def test_a_fabric_that_is_named_as_an_argument_is_an_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    code, _, err = failed(capsys, monkeypatch, *words)
    assert code == 2
    assert f"a fabric is an option: rocelab {words[0]} --fabric lab7\n" in err


def test_a_file_that_root_may_read_alone_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/run/rocelab/fabrics/a/faults.jsonl")

    monkeypatch.setattr("lab.backends.fabric_state.all_fabrics", refuse)
    with pytest.raises(PermissionError):  # root may do anything: then it is a fault of rocelab
        failed(capsys, monkeypatch, "down", "--all")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, _, err = failed(capsys, monkeypatch, "down", "--all")
    assert (code, err.count("\n")) == (4, 1)
    assert "/run/rocelab/fabrics/a/faults.jsonl: permission denied: run it as root" in err


@pytest.mark.parametrize(
    "words", [("alerts",), ("diagnose",), ("compare", "other"), ("report",), ("baseline", "learn")]
)
def test_a_name_that_is_too_long_for_a_file_is_a_line(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = failed(capsys, monkeypatch, *words, "x" * 300)
    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith("x/recording.json: the name is too long for a file: choose a shorter one\n")


def test_too_little_memory_is_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> NoReturn:
        raise MemoryError

    monkeypatch.setattr("lab.backends.fabric_state.all_fabrics", refuse)
    code, _, err = failed(capsys, monkeypatch, "down", "--all")
    assert (code, err.count("\n")) == (4, 1)
    assert err.startswith("error: there is not enough memory for this: ")


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_before_or_after_the_command_is_a_line(
    when: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command is added to recordings of its fabric when it ends."""

    @contextlib.contextmanager
    def interrupted() -> Iterator[None]:
        try:
            if when == "after":
                yield
        finally:
            raise Interrupted("ended by SIGINT")

    monkeypatch.setattr("lab.cli.app.recorded", interrupted)
    code, _, err = failed(capsys, monkeypatch, "docs", "quickstart")
    assert (code, err) == (130, "error: ended by SIGINT\n")


def test_ctrl_c_while_a_class_is_created_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11 has a RuntimeError for an error in __set_name__."""

    def interrupt() -> NoReturn:
        raise RuntimeError("Error calling __set_name__") from Interrupted("ended by SIGINT")

    monkeypatch.setattr("lab.backends.fabric_state.all_fabrics", interrupt)
    code, _, err = failed(capsys, monkeypatch, "down", "--all")
    assert (code, err) == (130, "error: ended by SIGINT\n")


def test_a_call_of_the_kernel_that_root_may_make_alone_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As setns(2): the error names no file."""

    def refuse() -> NoReturn:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("lab.backends.fabric_state.all_fabrics", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, _, err = failed(capsys, monkeypatch, "down", "--all")
    assert (code, err.startswith("error: permission denied: run it as root")) == (4, True)


@pytest.mark.parametrize(
    "words",
    [
        ("down",),
        ("down", "--all"),
        ("exec", "h1", "true"),
        ("vtysh", "leaf1"),
        ("drift",),
        ("status",),
        ("lldp",),
        ("record", "start"),
        ("fault", "ls"),
    ],
)
def test_commands_on_a_fabric_of_root_say_that_they_need_root(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(fabric_state, "FABRICS", tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "journal.jsonl").touch()
    monkeypatch.setattr("lab.cli.kit.open_fabric.os.access", lambda _path, mode: mode != os.W_OK)
    code, _, err = failed(capsys, monkeypatch, *words)
    assert code == 4
    assert "fabric theirs belongs to root: use sudo" in err
