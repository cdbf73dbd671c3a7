"""Calls of tools, with a program in place of rocelab: bounded in time and output, and one line for each failure."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from lab.cli.agents.tool_call import MOST_OUTPUT, ToolRunner
from lab.cli.agents.tool_catalogue import TOOLS
from lab.errors import Interrupted, LabError, UsageError
from lab.kernel.process import process

PROGRAM: Final = """
import json, os, subprocess, sys, time
{body}
"""


def runner(folder: Path, body: str, patience: float = 60.0) -> ToolRunner:
    """A runner whose rocelab is a program with this body."""
    file = folder / "program.py"
    file.write_text(PROGRAM.format(body=body))
    return ToolRunner((sys.executable, str(file)), "f", patience)


def call(it: ToolRunner, tool: str = "status", **arguments: Any) -> dict[str, Any]:
    return it.call(TOOLS[tool], arguments, lambda: None)


def refused(it: ToolRunner, tool: str = "status", **arguments: Any) -> str:
    with pytest.raises(LabError) as caught:
        call(it, tool, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_json_answer_is_passed_on_whatever_the_exit_code(tmp_path: Path) -> None:
    it = runner(tmp_path, "print(json.dumps({'words': sys.argv[1:]})); sys.exit(1)")
    assert call(it) == {"words": ["status", "--json", "--fabric=f"]}


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client starts the server in the folder of its project."""
    (tmp_path / "lab.py").write_text("print({})")
    monkeypatch.chdir(tmp_path)
    assert call(ToolRunner(), "challenge_causes")["items"]


def test_a_list_becomes_an_object(tmp_path: Path) -> None:
    assert call(runner(tmp_path, "print([1])"), "fabrics") == {"items": [1]}


def test_the_error_of_a_command_is_one_line(tmp_path: Path) -> None:
    error = {"error": {"message": "no fabric\nruns", "remedy": "build one", "kind": "UsageError", "exit_code": 2}}
    it = runner(tmp_path, f"print({json.dumps(error)!r}); print('error: no', file=sys.stderr); sys.exit(2)")
    assert refused(it) == "no fabric runs: build one"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('Traceback'); print('KeyError: 1', file=sys.stderr); sys.exit(1)", "KeyError: 1"),
        ("print('error: a', 'b', sep='\\n', file=sys.stderr); sys.exit(4)", "a"),
        ("sys.exit(3)", "rocelab status ended with 3 and no error"),
        ("os.kill(os.getpid(), 9)", "rocelab status ended with -9 and no error"),
    ],
)
def test_no_json_is_an_error(tmp_path: Path, body: str, said: str) -> None:
    assert refused(runner(tmp_path, body)) == said


def test_a_long_error_is_shortened(tmp_path: Path) -> None:
    assert len(refused(runner(tmp_path, "sys.exit('x' * 100000)"))) < 700


def test_a_json_answer_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    said = refused(runner(tmp_path, f"print('\"' + 'x' * {MOST_OUTPUT} + '\"')"))
    assert said == "the answer of rocelab status has more than 256 KiB: ask for fewer ports, nodes or packets"


def test_long_text_is_cut_and_the_program_is_ended(tmp_path: Path) -> None:
    it = runner(tmp_path, "print('y' * 1000000, flush=True); time.sleep(1000)")
    answer = call(it, "show", node="h1", what="links")
    assert (answer["truncated"], answer["exit_code"], len(answer["output"])) == (True, None, MOST_OUTPUT)


def test_text_has_both_streams_and_the_exit_code(tmp_path: Path) -> None:
    it = runner(tmp_path, "print('a'); print('error: b', file=sys.stderr); sys.exit(2)")
    answer = call(it, "show", node="h1", what="links")
    assert answer == {"exit_code": 2, "output": "a\n", "errors": "error: b\n", "truncated": False}


def test_an_error_of_rocelab_is_no_output_of_the_node(tmp_path: Path) -> None:
    it = runner(tmp_path, "sys.exit('error: no node h9: nodes are h1')")
    assert refused(it, "show", node="h9", what="links") == "no node h9: nodes are h1"


def test_endless_errors_are_bounded(tmp_path: Path) -> None:
    body = "for _ in range(100): print('e' * 100000, file=sys.stderr)\nprint('done')"
    answer = call(runner(tmp_path, body), "show", node="h1", what="links")
    assert (answer["output"], len(answer["errors"])) == ("done\n", MOST_OUTPUT)


def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[process.Process] = []

    def start(*arguments: Any, **options: Any) -> process.Process:
        started.append(original(*arguments, **options))
        return started[-1]

    original = process.start
    monkeypatch.setattr(process, "start", start)
    it = runner(tmp_path, "time.sleep(1000)", 0.5)
    assert refused(it) == "rocelab status did not answer within 0.5 s"
    assert not Path(f"/proc/{started[0].pid}").exists()


def test_the_time_that_arguments_ask_for_is_added(tmp_path: Path) -> None:
    it = runner(tmp_path, "time.sleep(1000)", 0.5)
    assert refused(it, "congestion", seconds=0.25) == "rocelab congestion did not answer within 0.75 s"


def test_a_program_left_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    """It holds the pipe open; the answer comes when the command itself has ended."""
    it = runner(tmp_path, "left = subprocess.Popen(['sleep', '1000'])\nprint(json.dumps({'pid': left.pid}))")
    pid = call(it)["pid"]
    os.kill(pid, signal.SIGKILL)  # it was still running


def test_a_call_that_is_cancelled_ends_its_command(tmp_path: Path) -> None:
    it = runner(tmp_path, "open(sys.argv[0] + '.pid', 'w').write(str(os.getpid()))\ntime.sleep(1000)")
    started = tmp_path / "program.py.pid"

    def checkpoint() -> None:
        if started.exists() and started.read_text():
            raise Interrupted("cancelled")

    with pytest.raises(Interrupted):
        it.call(TOOLS["status"], {}, checkpoint)
    assert not Path(f"/proc/{started.read_text()}").exists()


def test_calls_in_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    it = runner(tmp_path, "print(json.dumps({'words': sys.argv[1:]}))")
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = call(it, "events", limit=number)["words"][-1]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"--limit={number}" for number in range(1, 9)}


def test_invalid_arguments_name_the_argument_and_run_nothing(tmp_path: Path) -> None:
    it = runner(tmp_path, "open(sys.argv[0] + '.ran', 'w')")
    with pytest.raises(UsageError) as caught:
        call(it, "counters", ports=["--all"])
    assert str(caught.value).startswith("counters: ports.0: String should match pattern")
    assert refused(it, "counters", prots=[]).startswith("counters: prots: Extra inputs are not permitted")
    assert refused(it, "status", x=1).endswith("its arguments are none")
    assert not (tmp_path / "program.py.ran").exists()


def test_a_capture_is_written_decoded_and_removed(tmp_path: Path) -> None:
    body = """
words = sys.argv[1:]
if words[0] == "capture":
    (file,) = [word.partition("=")[2] for word in words if word.startswith("--output=")]
    open(file, "w").write("packets")
    open(sys.argv[0] + ".file", "w").write(file)
    print(json.dumps({"file": file, "links": ["a link"]}))
else:
    assert open(words[-1]).read() == "packets"
    print(json.dumps({"packets": words[:-1]}))
"""
    answer = call(runner(tmp_path, body), "capture", links=["h1:eth1"], packets=7)
    decode = ["--no-vm", "dissect", "--summary", "--json", "--limit=7"]
    assert answer == {"links": ["a link"], "packets": decode}
    assert not Path((tmp_path / "program.py.file").read_text()).parent.exists()
