"""Which words of a command line are files, as commands declare them."""

import subprocess
import sys

import pytest

from lab.cli.words import fabric_of, named_files
from lab.vm.handover import NamedFile


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("up ../x.yaml --name h1", [NamedFile("../x.yaml")]),
        ("--debug topology graph ./x.yaml -o a.svg", [NamedFile("./x.yaml"), NamedFile("a.svg", written=True)]),
        ("topology new leaf-spine --output=a.yaml", [NamedFile("a.yaml", written=True)]),
        ("craft cnp -fp.yaml -op.pcapng", [NamedFile("p.yaml"), NamedFile("p.pcapng", written=True)]),
        ("capture h1 -o x.pcapng --seconds 1", [NamedFile("x.pcapng", written=True)]),
        ("analyze x.pcapng --plot y.svg", [NamedFile("x.pcapng"), NamedFile("y.svg", written=True)]),
        ("scenario fix", [NamedFile("recordings", written=True)]),
        ("scenario fix -o ./mine", [NamedFile("./mine", written=True)]),
        ("dissect - --summary", []),
        ("exec h1 -- cat /etc/hosts", []),
        ("counters h1 --watch", []),
        ("no-such-command x", []),
        ("topology", []),
        ("--version", []),
        ("--help", []),
        ("", []),
    ],
)
def test_files_of_a_command_line(line: str, files: list[NamedFile], capsys: pytest.CaptureFixture[str]) -> None:
    found = named_files(line.split())
    assert sorted(found, key=str) == sorted(files, key=str)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("line", "fabric"),
    [("counters h1 --fabric=x", "x"), ("--debug qos set h1 a=1 --fabric y", "y"), ("exec h1 -- z --fabric y", None)],
)
def test_the_fabric_of_a_command_line(line: str, fabric: str | None) -> None:
    assert fabric_of(line.split()) == fabric


def test_a_command_line_is_sent_without_what_only_runs_it() -> None:
    code = (
        "import sys, lab.cli.vm; from lab.cli.words import named_files; named_files(['status', '--fabric', 'x']); "
        "sys.exit(str({'numpy', 'packaging', 'lab.vm.build'} & set(sys.modules) or ''))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == ""
