"""Tables for people: what is above and in them comes out whole."""

import os
import re
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from lab.cli.kit.output import _SafeConsole, table
from lab.cli.tables.packet_view import summary_line
from lab.cli.tables.pause_tree_view import Branch, draw


def printed(title: str, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(table(title, ("a", "b"), [("[red]", 2)]))
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue().splitlines()


def test_a_title_is_not_broken_by_how_narrow_its_table_is() -> None:
    title = "RDMA write, 65536-byte messages, 1 QP, path MTU 4096, virtual time"
    assert printed(title, 80)[0].rstrip() == title


def test_nothing_is_taken_for_markup() -> None:
    head, *rows = printed("of [bold] ports", 80)
    assert head.rstrip() == "of [bold] ports"
    assert any("[red]" in row for row in rows)


@pytest.mark.parametrize("value", [r"\[/x]", r"\[red]x", "[/]", "[link=x]y", ":smile:", "\\", "[bold]", r"\\[/b]"])
def test_a_cell_and_a_column_are_printed_as_they_are(value: str) -> None:
    console = Console(file=StringIO(), width=80)
    console.print(table("", (value, "b"), [(value, 2)]))
    file = console.file
    assert isinstance(file, StringIO)
    assert file.getvalue().count(value) == 2


EVIL = "\x1b[2Ja\x1b]0;b\x07c\x9b31md\x00e\x7ff\x08g\rh"


def test_no_text_drives_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table, a line, a tree, an error: on a terminal there are Rich's own sequences, and no others."""
    monkeypatch.setenv("TERM", "xterm-256color")
    written = StringIO()
    console = _SafeConsole(file=written, width=80, force_terminal=True)
    console.print(table(EVIL, ("a", "b"), [(EVIL, 1)]))
    console.print(EVIL, markup=False, highlight=False, soft_wrap=True, style="red")
    console.print(draw(EVIL, [Branch(EVIL, ())]))
    console.print(Text(EVIL), Text("tab\there"))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
    assert set(re.findall(r"[\x00-\x1f\x7f-\x9f]", plain)) == {"\n"}
    assert plain.count("[2Ja]0;bc31mdefgh") == 6


def test_lines_of_packets_are_as_safe() -> None:
    line = summary_line(1, "0.0", EVIL, EVIL)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", line)


def rocelab(*words: str, reads: int) -> tuple[int, str]:
    """The exit code of a command of whose output so many bytes are read, and what it says on standard error."""
    argv = [sys.executable, "-m", "lab", "--no-vm", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        os.read(command.stdout.fileno(), reads) if reads else None
        command.stdout.close()
        said = command.stderr.read().decode()
        return command.wait(60), said


@pytest.mark.parametrize("reads", [0, 1])
@pytest.mark.parametrize("words", [["examples", "ls"], ["scenario", "ls", "--json"], ["--help"], ["docs", "faults"]])
def test_who_is_not_read_to_the_end_ends_as_by_sigpipe(words: list[str], reads: int) -> None:
    code, said = rocelab(*words, reads=reads)
    assert said == ""
    assert code == 141 or (reads and code == 0)  # what fits into a pipe is written before anybody looks


def test_an_error_keeps_its_exit_code() -> None:
    code, said = rocelab("scenario", "show", "no-such-scenario", reads=0)
    assert code == 2
    assert "no-such-scenario" in said
