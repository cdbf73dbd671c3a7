"""Exit codes and one-line messages of the error tree."""

import pytest

from lab.errors import (
    Busy,
    CommandFailed,
    EnvironmentLacks,
    ExitCode,
    InvalidInput,
    LabError,
    NotConverged,
    OperationFailed,
    Problem,
    UsageError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LabError("x"), ExitCode.FAIL),
        (UsageError("x"), ExitCode.USAGE),
        (InvalidInput("f", []), ExitCode.USAGE),
        (EnvironmentLacks("x"), ExitCode.ENVIRONMENT),
        (Busy("x"), ExitCode.ENVIRONMENT),
        (OperationFailed("x"), ExitCode.FAIL),
        (NotConverged("x"), ExitCode.FAIL),
        (CommandFailed(["x"], 1, ""), ExitCode.FAIL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error: LabError, code: ExitCode) -> None:
    assert error.exit_code is code
    assert isinstance(error, LabError)


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
