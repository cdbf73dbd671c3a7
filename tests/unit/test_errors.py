"""Exit codes and one-line messages of the error tree."""

import ast
import errno
import os
from pathlib import Path

import pytest

from lab import errors
from lab.cli.kit.option_value import read_value
from lab.errors import (
    CommandFailed,
    EnvironmentLacks,
    ExitCode,
    ExpectedError,
    FabricBusy,
    Interrupted,
    InvalidInput,
    LabError,
    NotConverged,
    OperationFailed,
    Problem,
    UsageError,
    writing,
)
from lab.units import parse_rate, parse_size, parse_time


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LabError("x"), ExitCode.FAIL),
        (UsageError("x"), ExitCode.USAGE),
        (InvalidInput("f", []), ExitCode.USAGE),
        (EnvironmentLacks("x"), ExitCode.ENVIRONMENT),
        (FabricBusy("x"), ExitCode.ENVIRONMENT),
        (OperationFailed("x"), ExitCode.FAIL),
        (NotConverged("x"), ExitCode.FAIL),
        (CommandFailed(["x"], 1, ""), ExitCode.FAIL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error: LabError, code: ExitCode) -> None:
    assert error.exit_code is code
    assert isinstance(error, LabError)


def test_code_that_goes_on_after_an_error_does_not_go_on_after_ctrl_c() -> None:
    """About thirty places leave out what a LabError hides, such as an answer of a daemon that is dead."""
    error: BaseException = Interrupted("ended by SIGINT")
    assert isinstance(error, ExpectedError)
    assert error.exit_code is ExitCode.INTERRUPTED
    assert not isinstance(error, Exception)


def test_the_remedy_follows_the_message() -> None:
    assert str(UsageError("no file x", "name one")) == "no file x: name one"
    assert str(UsageError("no file x")) == "no file x"


def test_every_problem_is_told_with_its_place() -> None:
    problems = [Problem("links[3].rate", "is wrong", "mend it", 7), Problem("", "is empty", "fill it")]
    error = InvalidInput("a.yaml", problems)
    assert str(error) == "a.yaml:7: links[3].rate: is wrong; mend it\na.yaml: is empty; fill it"
    assert error.problems == tuple(problems)


def test_problems_sort_by_path() -> None:
    assert sorted([Problem("b", "", ""), Problem("a", "z", "")])[0].path == "a"


@pytest.mark.parametrize(
    ("stderr", "said"),
    [("first\nlast line \n\n", "last line"), ("", "it printed no error"), ("\n \n", "it printed no error")],
)
def test_a_failed_command_quotes_the_last_line_it_wrote(stderr: str, said: str) -> None:
    error = CommandFailed(["ip", "link"], 2, stderr)
    assert str(error) == f"ip link ended with 2: {said}"
    assert (error.argv, error.returncode, error.stderr) == (("ip", "link"), 2, stderr)


def without_remedy(source: str) -> list[int]:
    """Lines that make a UsageError or EnvironmentLacks and say nothing of what to do."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    ours = [call for call in calls if getattr(call.func, "id", "") in {"UsageError", "EnvironmentLacks"}]
    return [call.lineno for call in ours if len(call.args) + len(call.keywords) < 2]


def test_whoever_asked_for_what_cannot_be_is_told_what_to_do() -> None:
    """Of the namespace that a probe could not be made in nothing is known but why."""
    package = Path(errors.__file__).parent
    found = {file.name: without_remedy(file.read_text(encoding="utf-8")) for file in package.rglob("*.py")}
    assert [name for name, lines in found.items() if lines] == ["probe.py"]


def test_an_error_without_a_remedy_is_noticed() -> None:
    assert without_remedy('raise UsageError("no")\nraise UsageError("no", "do")') == [1]


@pytest.mark.parametrize("text", ["soon", "1.5B", "10Mbps"])
def test_a_value_that_cannot_be_read_is_told_with_its_option_and_a_remedy(text: str) -> None:
    for parse in (parse_size, parse_rate, parse_time):
        with pytest.raises(UsageError) as refused:
            read_value("--it", text, parse)
        assert refused.value.message.startswith(f"--it: {text!r} ")
        assert refused.value.remedy.startswith("write ")


_OWN_PLACES = {"wire/pcapng.py", "wire/pcapng_ring.py", "cli/kit/output.py", "cli/packets/on_event.py"}
"""Captures that break off keep what they have; standard output is no file; a folder is checked before it is used."""


def test_a_result_that_cannot_be_written_has_one_exit_code() -> None:
    """Errors of rooms that write what a user names: ``lab.errors.writing`` is the only place that words them."""
    lab = Path(errors.__file__).parent
    rooms = ("wire", "analysis", "jobs", "export", "telemetry", "scenario", "diagnose", "report", "cli")
    found = {
        str(path.relative_to(lab))
        for room in rooms
        for path in (lab / room).rglob("*.py")
        if any(
            isinstance(node, ast.JoinedStr)
            and ("cannot be written" in (text := ast.unparse(node)) or "cannot write" in text)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    assert found <= _OWN_PLACES


def test_an_output_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused, writing(tmp_path, "name another with -o"):
        tmp_path.write_text("")
    assert str(refused.value) == f"cannot write {tmp_path}: Is a directory: name another with -o"
    assert refused.value.exit_code == 2


def test_a_new_output_that_cannot_be_written_is_not_left_empty(tmp_path: Path) -> None:
    """As on a full disk. What was there before stays, and so does a folder."""

    def fill(path: Path) -> None:
        if not path.is_dir():
            path.write_text("")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "old").touch()
    (tmp_path / "folder").mkdir()
    for name in ("new", "old", "folder"):
        with pytest.raises(UsageError, match="No space left on device"), writing(tmp_path / name):
            fill(tmp_path / name)
    assert {each.name for each in tmp_path.iterdir()} == {"old", "folder"}
