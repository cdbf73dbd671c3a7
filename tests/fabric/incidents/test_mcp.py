"""``rocelab mcp`` of a native fabric, used by a real MCP client: its answers are those of the commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import anyio
import pytest

from lab.backends.fabric_state import FabricState
from lab.kernel.process.user_folders import STATE_HOME
from lab.scenario.challenges.challenge_record import Challenge, required
from tests.fabric.command import rocelab, rocelab_json
from tests.fabric.mcp_client import play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fabric.mcp_client import Session

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("fabric"), pytest.mark.timeout(600)]
NAME: Final = "agents"
MCP: Final = ("-m", "lab", "mcp", "--fabric", NAME)
TOPOLOGY: Final = f"""name: {NAME}
nodes:
  spine1: {{role: spine}}
  leaf1: {{role: leaf}}
  leaf2: {{role: leaf}}
  h1: {{role: host, rdma: false}}
  h2: {{role: host, rdma: false}}
links:
  - {{ends: [leaf1, spine1]}}
  - {{ends: [leaf2, spine1]}}
  - {{ends: [h1, leaf1]}}
  - {{ends: [h2, leaf2]}}
"""
STORY: Final = '''"""A black hole: leaf1 discards what h1 sends to h2.

Story
    Given  h1 reaches h2
    When   leaf1 has a static route to h2 that leads nowhere
    Then   no packet of h1 arrives

Numbers
    all packets are lost
"""

from lab.scenario.api import Parameters, Scenario, StoryAnswer, expect


class Params(Parameters):
    """Nothing to choose."""


def run(stage, p):
    with stage.phase("inject"):
        stage.inject("static-route", "leaf1", to="h2")
        stage.linger()


def it_ends(rec, p):
    return expect(True, "it ended")


ANSWER = StoryAnswer(
    cause="black-hole",
    where=("leaf1",),
    level=1,
    workload="nothing runs",
    hints=("h1 does not reach h2", "look at leaf1", "its routes", "show routes of leaf1", "a blackhole route"),
    sign="a switch would have a route that leads nowhere",
    because="a static route overrides the learned one",
    fix="remove the route",
    prevention="compare switches of one tier",
)
SCENARIO = Scenario("black-hole", "agents.yaml", Params, run, (it_ends,), answer=ANSWER)
'''


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stories")
    (folder / "agents.yaml").write_text(TOPOLOGY)
    (folder / "black_hole.py").write_text(STORY)
    return folder


@pytest.fixture(scope="module")
def fabric(stories: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(STATE_HOME, str(stories / "state"))
        rocelab("up", stories / "agents.yaml")
        yield
        rocelab("down", "--all")


def test_tools_answer_as_the_commands_do() -> None:
    async def work(session: Session) -> None:
        assert await session.answer("fabrics") == {"items": rocelab_json("ls")}
        assert await session.answer("nodes", nodes=["h1"]) == rocelab_json("inspect", "h1")
        assert (await session.answer("status"))["healthy"] is True
        paths = await session.answer("path", source="h1", destination="h2")
        assert paths == rocelab_json("path", "h1", "h2")
        routes = await session.answer("show", node="leaf1", what="routes")
        assert routes["output"] == rocelab("exec", "leaf1", "ip", "route", "show", "table", "all").stdout
        version = await session.answer("routing", node="leaf1", command="show bgp summary json")
        assert json.loads(version["output"])["ipv4Unicast"]["peerCount"] == 1
        assert version["exit_code"] == 0

    play(work, *MCP)


def test_a_capture_has_the_packets_of_a_ping() -> None:
    async def work(session: Session) -> None:
        captured = []

        async def capture() -> None:
            captured.append(await session.answer("capture", links=["h1:eth1"], packets=6, seconds=30))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(capture)
            while not captured:
                echoed = await session.answer("ping", node="h1", destination="h2", count=3)
                assert echoed["exit_code"] == 0
        (found,) = captured
        assert [each["link"] for each in found["links"]] == ["h1:eth1"]
        assert len(found["packets"]) == 6

    play(work, *MCP)


def test_bad_input_is_an_error_of_one_line_and_the_server_goes_on() -> None:
    async def work(session: Session) -> None:
        assert "nosuch" in await session.error("show", node="nosuch", what="links")
        assert "nosuch" in await session.error("ping", node="nosuch", destination="h1")
        assert "leaf9" in await session.error("capture", links=["leaf9:swp1"], seconds=1)
        assert await session.error("capture", links=["h1:eth1"], filter="qpn==") != ""
        assert "no lossless ports" in await session.error("counters")
        assert "has no challenge" in await session.error("challenge_hint")
        failed = await session.answer("ping", node="h1", destination="unknown")
        assert failed["exit_code"] == 2
        assert "unknown" in failed["errors"]
        assert (await session.answer("status"))["fabric"] == NAME

    play(work, *MCP)


def test_a_fabric_that_goes_down_is_an_error_and_the_server_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("name: short\nnodes:\n  h1: {role: host, rdma: false}\n  leaf: {role: leaf}\nlinks:\n"
                    "  - {ends: [h1, leaf]}\n")  # fmt: skip

    async def work(session: Session) -> None:
        assert (await session.error("status")).startswith("no fabric short: ")
        rocelab("up", file)
        assert (await session.answer("status"))["healthy"] is True
        rocelab("down", "--fabric", "short")
        assert (await session.error("status")).startswith("no fabric short: ")
        assert [each["fabric"] for each in (await session.answer("fabrics"))["items"]] == [NAME]

    play(work, "-m", "lab", "mcp", "--fabric", "short")


def test_commands_run_in_a_node_if_that_is_allowed() -> None:
    async def work(session: Session) -> None:
        named = await session.answer("exec", node="h1", command=["hostname"])
        assert named == {"exit_code": 0, "output": "h1\n", "errors": "", "truncated": False}
        long = await session.answer("exec", node="h1", command=["yes"])
        assert long["truncated"] is True
        assert long["exit_code"] is None
        assert "fault_inject is not allowed" in await session.error(
            "fault_inject", kind="link-cut", place="h1--leaf1"
        )

    play(work, *MCP, "--allow", "exec")


def test_faults_are_injected_if_that_is_allowed() -> None:
    async def work(session: Session) -> None:
        kinds = {each["kind"] for each in (await session.answer("fault_kinds"))["items"]}
        assert "static-route" in kinds
        made = await session.answer("fault_inject", kind="static-route", place="leaf1", parameters={"to": "h2"})
        assert [each["number"] for each in (await session.answer("faults"))["items"]] == [made["number"]]
        assert (await session.answer("ping", node="h1", destination="h2", count=1))["exit_code"] == 1
        await session.answer("fault_heal", number=made["number"])
        assert (await session.answer("ping", node="h1", destination="h2", count=1))["exit_code"] == 0
        assert "there is no kind" in await session.error("fault_inject", kind="nosuch", place="leaf1")

    play(work, *MCP, "--allow", "inject")


def test_a_challenge_is_solved_without_access_to_its_answer(stories: Path) -> None:
    """The client finds the black hole by pings and routes. Nothing else that it can call names the fault."""
    rocelab("scenario", "break", "black-hole", "--path", stories)
    state = FabricState(NAME)

    async def work(session: Session) -> None:
        assert await session.answer("faults") == {"items": []}
        shown = ""
        for tool in ("fabrics", "nodes", "status", "path"):
            ends = {"source": "h1", "destination": "h2"} if tool == "path" else {}
            shown += json.dumps((await session.client.call_tool(tool, ends)).structured_content)
        assert "black-hole" not in shown
        assert "static-route" not in shown
        refused = await session.error("exec", node="h1", command=["cat", str(state.challenge / "about.json")])
        assert "has a challenge" in refused
        assert "has a challenge" in await session.error("fault_inject", kind="link-cut", place="leaf1--spine1")
        lost = await session.answer("ping", node="h1", destination="h2", count=1)
        assert lost["exit_code"] == 1
        places = [
            leaf
            for leaf in ("leaf1", "leaf2", "spine1")
            if "blackhole" in (await session.answer("show", node=leaf, what="routes"))["output"]
        ]
        assert places == ["leaf1"]
        wrong = await session.answer("challenge_check", cause="black-hole", place="spine1")
        assert wrong["verdict"] == "right cause, wrong place"
        assert (await session.answer("challenge_hint"))["left"] == 4
        right = await session.answer("challenge_check", cause="black-hole", place="leaf1")
        assert right["verdict"] == "right"

    play(work, *MCP, "--allow", "exec", "--allow", "inject")
    about = required(Challenge(state))
    assert (about.solved, about.wrong, about.hints) == (True, 1, 1)
    rocelab("scenario", "fix", "-o", stories / "kept")
    (score,) = rocelab_json("scenario", "score")
    assert score["guess"] == {"cause": "black-hole", "place": "leaf1"}
    labels = {"is_anomaly": True, "root_causes": [{"resource_id": "leaf1", "fault_type": "black-hole"}]}
    (exported,) = json.loads(rocelab("scenario", "score", "--nika").stdout)
    assert exported["ground_truth"] == exported["submission"] == labels
