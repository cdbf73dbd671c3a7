"""Tables for people: what is above and in them comes out whole."""

from io import StringIO

from rich.console import Console

from lab.cli.output import table


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
