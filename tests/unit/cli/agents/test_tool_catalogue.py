"""The tools of ``rocelab mcp``: each becomes the command line that it stands for, and no value becomes an option."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

from lab.cli.agents.tool_call import answer_schema
from lab.cli.agents.tool_catalogue import TOOLS, ToolAccess
from lab.cli.command_entry import Target
from lab.cli.command_registry import find_command
from tests.command_line import parsed

VALUES: Final[dict[str, dict[str, Any]]] = {
    "counters": {"ports": ["leaf1:swp1", "spine"], "priority": 3},
    "congestion": {"seconds": 0.5},
    "events": {"ports": ["leaf1"], "limit": 7},
    "qos": {"ports": ["leaf1"]},
    "nodes": {"nodes": ["h1"]},
    "path": {"source": "h1", "destination": "h2:eth1", "sport": 7},
    "diagnose": {"seconds": 3, "settings": True},
    "capture": {"links": ["h1..h5", "leaf1--spine1"], "filter": "--all or not ack", "seconds": 1, "packets": 9},
    "show": {"node": "leaf1", "what": "routes"},
    "routing": {"node": "leaf1", "command": "show bgp summary"},
    "ping": {"node": "h1", "destination": "fd00::1", "count": 2},
    "challenge_check": {"cause": "pfc-storm", "place": "h8"},
    "exec": {"node": "h1", "command": ["--fabric=other", "-x", "--", "y"]},
    "fault_inject": {"kind": "link-cut", "place": "h1--leaf1", "parameters": {"to": "--for=1s"}},
    "fault_heal": {"number": 3},
}
"""Arguments of each tool that has some."""
WORDS: Final = {
    "counters": "counters --json --fabric=f --priority=3 -- leaf1:swp1 spine",
    "path": "path --json --fabric=f --sport=7 -- h1 h2:eth1",
    "overlay": "status --evpn --json --fabric=f",
    "fabrics": "ls --json",
    "show": "exec --fabric=f -- leaf1 ip route show table all",
    "challenge_check": "scenario check --json --fabric=f --cause=pfc-storm --where=h8",
}


def line_of(name: str) -> list[str]:
    tool = TOOLS[name]
    output = Path("/t/c.pcapng") if name == "capture" else None
    return tool.argv(tool.arguments.model_validate(VALUES.get(name, {})), "f", output)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_becomes_a_command_line_that_rocelab_parses(name: str) -> None:
    """No value was read as an option: the fabric is the one of the server, in every case."""
    line = parsed(line_of(name))
    assert line.path == TOOLS[name].command
    assert line.fabric == ("f" if TOOLS[name].on_fabric else None)
    assert line.wants_json is TOOLS[name].prints_json
    assert None not in [line.values[each] for each in line.values if each in VALUES.get(name, {})]


@pytest.mark.parametrize("name", WORDS)
def test_the_command_line_of_a_tool(name: str) -> None:
    assert line_of(name) == WORDS[name].split()


def test_values_that_look_like_options_stay_values() -> None:
    values = parsed(line_of("exec")).values
    assert values["command"] == ["--fabric=other", "-x", "--", "y"]
    assert values["not_in_challenge"] is True
    assert parsed(line_of("fault_inject")).values["words"] == ["to=--for=1s"]
    assert parsed(line_of("fault_inject")).values["lasting"] is None
    assert parsed(line_of("capture")).values["select"] == "--all or not ack"


@pytest.mark.parametrize("name", VALUES)
def test_no_name_begins_with_a_dash(name: str) -> None:
    """For each argument that is a name: a dash, a space or a newline makes it invalid."""
    arguments = TOOLS[name].arguments
    for key, value in VALUES[name].items():
        is_list = isinstance(value, list)
        if key in {"filter", "command", "parameters"} or not (is_list or isinstance(value, str)):
            continue
        for bad in ("--all", "a b", "a\n", "", "a;b"):
            with pytest.raises(ValidationError):
                arguments.model_validate({**VALUES[name], key: [bad] if is_list else bad})


@pytest.mark.parametrize(
    "command", ["configure terminal", "show run | include x", "show x\nconf t", "show ", "clear"]
)
def test_only_show_commands_reach_the_routing_daemons(command: str) -> None:
    with pytest.raises(ValidationError):
        TOOLS["routing"].arguments.model_validate({"node": "leaf1", "command": command})


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("capture", {"seconds": 31}),
        ("capture", {"packets": 201}),
        ("capture", {"links": []}),
        ("ping", {"count": 21}),
        ("congestion", {"seconds": 61}),
        ("events", {"limit": 1001}),
        ("counters", {"ports": ["leaf1"] * 65}),
        ("show", {"what": "passwords"}),
        ("status", {"watch": True}),
        ("counters", {"priority": "3"}),
    ],
)
def test_arguments_are_bounded(name: str, changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TOOLS[name].arguments.model_validate({**VALUES.get(name, {}), **changed})


def test_tools_without_a_permission_run_fixed_commands_only() -> None:
    """Reading tools run commands that do not change a fabric, and in nodes only programs that print its state."""
    reading = {tool.command for tool in TOOLS.values() if tool.access is ToolAccess.READ}
    changing = {("fault", "inject"), ("fault", "heal"), ("qos", "set"), ("shell",), ("up",), ("down",), ("craft",)}
    hiding = {("drift",), ("scenario", "fix"), ("scenario", "explain"), ("scenario", "break"), ("scenario", "show")}
    assert not reading & (changing | hiding)
    programs = {line_of(name)[line_of(name).index("--") + 2] for name in ("show", "ping")}
    assert programs == {"ip", "ping"}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_has_schemas_of_objects(name: str) -> None:
    tool = TOOLS[name]
    assert answer_schema(tool)["type"] == "object"
    schema = tool.arguments.model_json_schema()
    assert schema["additionalProperties"] is False
    assert all(each.get("description") for each in schema["properties"].values())
    entry = find_command(tool.command)
    assert entry is not None
    assert (Target.FABRIC in entry.targets) or not tool.on_fabric
