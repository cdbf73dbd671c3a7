"""Which words of a command line are files, as commands declare them."""

import subprocess
import sys

import pytest

from lab.vm.calls.handover import NamedFile
from tests.command_line import named_files, parsed


def read(text: str, place: int) -> NamedFile:
    return NamedFile(text, places=(place,))


def made(text: str, *places: int) -> NamedFile:
    return NamedFile(text, written=True, places=places)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("up ../x.yaml --name h1", [read("../x.yaml", 2)]),
        ("--debug topology graph ./x.yaml -o a.svg", [read("./x.yaml", 4), made("a.svg", 6)]),
        ("topology new leaf-spine --output=a.yaml", [made("a.yaml", 4)]),
        ("craft cnp -fp.yaml -op.pcapng", [read("p.yaml", 3), made("p.pcapng", 4)]),
        ("capture h1 -o x.pcapng --seconds 1", [made("x.pcapng", 4)]),
        ("analyze x.pcapng --plot y.svg", [read("x.pcapng", 2), made("y.svg", 4)]),
        ("scenario fix", [NamedFile("recordings", written=True, places=(), option="--output")]),
        ("record start", [NamedFile("recordings", written=True, places=(), option="--output")]),
        ("scenario fix -o ./mine", [made("./mine", 4)]),
        ("dissect - --summary", []),
        ("exec h1 -- cat /etc/hosts", []),
        ("counters h1 --watch", []),
        ("no-such-command x", []),
        ("topology", []),
        ("--version", []),
        ("--help", []),
        ("", []),
        # What is called as the file is: a node, a fabric, a kind of packet, the command itself, an option's value.
        ("capture h1 -o h1", [made("h1", 4)]),
        ("capture out -oout --fabric out", [made("out", 3)]),
        ("--no-vm capture capture --output=capture", [made("capture", 4)]),
        ("craft write -f write -o write", [read("write", 4), made("write", 6)]),
        ("topology graph a=b -o=a=b", [read("a=b", 3), made("=a=b", 4)]),
        ("up x --name x", [read("x", 2)]),
        ("dissect -- ../x.pcapng", [read("../x.pcapng", 3)]),
        ("dissect ../x.pcapng --filter ../x.pcapng", [read("../x.pcapng", 2)]),
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
    assert parsed(line).fabric == fabric


def test_a_command_line_is_sent_without_what_only_runs_it() -> None:
    code = (
        "import sys, lab.cli.kit.vm_call; from tests.command_line import named_files; "
        "named_files(['status', '--fabric', 'x']); "
        "sys.exit(str({'numpy', 'packaging', 'lab.vm.image.image_build'} & set(sys.modules) or ''))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == ""


def test_a_command_line_has_its_command_and_its_values() -> None:
    line = parsed("--debug fault heal --all --fabric x")
    assert (line.path, line.values["every"], line.fabric) == (("fault", "heal"), True, "x")
    assert line.argv == ["rocelab", "--debug", "fault", "heal", "--all", "--fabric", "x"]
    assert line.arguments == ["--all", "--fabric", "x"]
    assert parsed("record start --hz many").values["hz"] is None
    assert parsed("no-such-command x").path == ()
