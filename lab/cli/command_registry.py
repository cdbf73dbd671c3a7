"""The command registry: all properties of the commands that are needed before a command's module is imported.

To add a command, add one ``CommandEntry`` here and one module. The readers of the registry:

- ``command_groups``: which module implements a command
- ``vm_routing`` and ``kit.vm_call``: where a command runs, and how it is treated in the VM
- ``schemas``: the models of ``--json`` answers
- ``kit.recorded_command``: whether recordings of the fabric contain the command
- ``resident``: what to import in advance
- ``app``: what to suggest for an unknown command

This module imports nothing but ``command_entry``, because every command waits for it: modules and models are names
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.cli.command_entry import Attended, CommandEntry, Suggestion, Target, TargetByOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def _answers(model: str, **by_option: str) -> Mapping[str, str]:
    return {"": model} | {f"--{option}": each for option, each in by_option.items()}


_ENTRIES: Final = (
    CommandEntry("doctor", "machine.doctor:doctor", answers=_answers("machine.Doctor")),
    CommandEntry(
        "topology",
        "fabrics.topology:app",
        below=(
            CommandEntry("check"),
            CommandEntry("show", answers=_answers("fabric.TopologyShow")),
            CommandEntry("graph"),
            CommandEntry("schema"),
            CommandEntry(
                "new", below=(CommandEntry("leaf-spine"), CommandEntry("clos"), CommandEntry("rail-optimised"))
            ),
        ),
    ),
    CommandEntry(
        "examples",
        "fabrics.examples:app",
        below=(CommandEntry("ls", answers=_answers("list[scenarios.ListedExample]")), CommandEntry("copy")),
    ),
    CommandEntry(
        "up",
        "fabrics.up:up",
        checkpointed=True,
        answers=_answers("fabric.Up"),
        suggestion=Suggestion(("start", "create", "deploy", "build", "apply"), "rocelab up FILE builds a fabric"),
    ),
    CommandEntry("adopt", "fabrics.adopt:adopt", answers=_answers("fabric.Adopted")),
    CommandEntry(
        "down",
        "fabrics.down:down",
        target=TargetByOption("all_", given=Target.HERE, absent=Target.FABRIC),
        suggestion=Suggestion(("stop", "destroy", "delete", "remove", "clean"), "rocelab down removes a fabric"),
    ),
    CommandEntry(
        "ls",
        "fabrics.down:list_fabrics",
        answers=_answers("list[fabric.ListedFabric]"),
        suggestion=Suggestion(
            ("list", "ps", "nodes", "fabrics"), "rocelab ls lists fabrics, rocelab inspect lists nodes"
        ),
    ),
    CommandEntry(
        "status",
        "fabrics.status:status",
        target=Target.FABRIC,
        recorded=True,
        answers=_answers("fabric.Status", evpn="fabric.StatusEvpn"),
        suggestion=Suggestion(
            ("show", "get", "describe", "info"), "rocelab status, inspect, counters and qos show a fabric"
        ),
    ),
    CommandEntry("inspect", "fabrics.inspect:inspect", target=Target.FABRIC, answers=_answers("fabric.Inspect")),
    CommandEntry(
        "path",
        "fabrics.path:path",
        target=Target.FABRIC,
        recorded=True,
        answers=_answers("fabric.Paths"),
        suggestion=Suggestion(
            ("trace", "route", "ecmp"), "rocelab path SRC DST, or rocelab follow FILE QPN:PSN for one packet"
        ),
    ),
    CommandEntry(
        "lldp",
        "fabrics.lldp:lldp",
        target=Target.FABRIC,
        recorded=True,
        answers=_answers("cabling_answer.Cabling"),
        suggestion=Suggestion(
            ("cables", "cabling", "neighbors", "neighbours", "lldpcli", "lldpctl"),
            "rocelab lldp compares the cabling with the topology",
        ),
    ),
    CommandEntry(
        "exec",
        "fabrics.node:execute",
        target=Target.FABRIC,
        attended=Attended.ON_TERMINAL,
        open_ended=True,
        recorded=True,
        suggestion=Suggestion(
            ("ping", "traceroute", "mtr", "tcpdump", "iperf3", "ip", "tc", "ethtool", "rping", "ib_write_bw"),
            "it runs in a node: rocelab exec h1 -- {word} ...",
        ),
    ),
    CommandEntry(
        "shell",
        "fabrics.node:shell",
        target=Target.FABRIC,
        attended=Attended.ON_TERMINAL,
        open_ended=True,
        recorded=True,
        suggestion=Suggestion(
            ("ssh", "login", "connect", "attach", "sh"),
            "rocelab shell NODE opens a shell, rocelab vtysh SWITCH its routing",
        ),
    ),
    CommandEntry(
        "vtysh",
        "fabrics.node:vtysh",
        target=Target.FABRIC,
        attended=Attended.ON_TERMINAL,
        open_ended=True,
        recorded=True,
    ),
    CommandEntry(
        "rdma",
        "traffic.rdma:app",
        suggestion=Suggestion(("perftest", "bw", "traffic", "incast"), "rocelab rdma bw SRC DST"),
        below=(
            CommandEntry("bw", target=Target.FABRIC, recorded=True, answers=_answers("traffic.RdmaBw")),
            CommandEntry("lat", target=Target.FABRIC, recorded=True, answers=_answers("traffic.RdmaLat")),
            CommandEntry("show", target=Target.FABRIC, recorded=True, answers=_answers("traffic.RdmaShow")),
        ),
    ),
    CommandEntry(
        "job",
        "traffic.job:app",
        suggestion=Suggestion(("mpi", "nccl", "collective", "mpirun", "all_reduce_perf"), "rocelab job allreduce"),
        below=(
            *(
                CommandEntry(name, target=Target.FABRIC, recorded=True, answers=_answers("traffic.JobRun"))
                for name in ("allreduce", "allgather", "reduce-scatter", "alltoall", "broadcast", "sendrecv")
            ),
            CommandEntry("train", target=Target.FABRIC, recorded=True, answers=_answers("traffic.JobTrain")),
            CommandEntry(
                "transfer", target=Target.FABRIC, recorded=True, answers=_answers("traffic.JobTransferAnswer")
            ),
            CommandEntry("explain", answers=_answers("jobs.JobExplain")),
            CommandEntry("export", answers=_answers("traffic.JobExport")),
        ),
    ),
    CommandEntry(
        "counters",
        "traffic.counters:counters",
        target=Target.FABRIC,
        attended_option="watch",
        recorded=True,
        answers=_answers("ports.Counters", names="list[ports.NamedCounter]"),
    ),
    CommandEntry(
        "metrics",
        "traffic.metrics:app",
        suggestion=Suggestion(
            ("prometheus", "exporter", "openmetrics", "grafana"), "rocelab metrics serve serves them to Prometheus"
        ),
        below=(
            CommandEntry(
                "serve",
                target=TargetByOption("stream", given=Target.FABRIC, absent=Target.HOST),
                attended=Attended.ALWAYS,
                open_ended=True,
            ),
            CommandEntry("print", target=Target.FABRIC),
            CommandEntry("ls", answers=_answers("list[ports.MetricFamilyAnswer]")),
        ),
    ),
    CommandEntry(
        "congestion",
        "traffic.congestion:congestion",
        target=Target.FABRIC,
        recorded=True,
        answers=_answers("list[ports.CongestionRoot]"),
    ),
    CommandEntry(
        "qos",
        "traffic.qos_commands:app",
        below=(
            CommandEntry(
                "show",
                "traffic.qos:show",
                target=Target.FABRIC,
                recorded=True,
                answers=_answers("ports.QosShow"),
            ),
            CommandEntry("set", "traffic.qos:set_", target=Target.FABRIC, recorded=True),
            CommandEntry(
                "events",
                "traffic.qos:list_events",
                target=Target.FABRIC,
                attended_option="follow",
                recorded=True,
                answers=_answers("list[ports.PortEventAnswer]"),
            ),
            CommandEntry(
                "presets",
                "traffic.qos_presets:presets",
                answers=_answers("list[ports.PresetAnswer]", diff="list[ports.PresetDifference]"),
            ),
            CommandEntry("plan", "traffic.qos_plan:plan", answers=_answers("ports.QosPlan")),
        ),
    ),
    CommandEntry(
        "scenario",
        "incidents.scenario:app",
        below=tuple(
            CommandEntry(name, target=target, answers=answers, after_vm="incidents.scores:collect")
            for name, target, answers in (
                ("break", Target.FABRIC, _answers("scenarios.Broken")),
                ("hint", Target.FABRIC, _answers("scenarios.Hints")),
                ("check", Target.FABRIC, _answers("scenarios.Checked")),
                ("fix", Target.FABRIC, _answers("scenarios.Fixed")),
                ("explain", Target.FABRIC, _answers("scenarios.ExplanationAnswer")),
                ("score", Target.HERE, _answers("list[scenarios.Score]", nika="list[scenarios.LabelledScore]")),
                ("ls", Target.HERE, _answers("list[scenarios.ListedScenario]")),
                ("show", Target.HERE, _answers("scenarios.ScenarioShow")),
                ("lint", Target.HERE, {}),
                ("run", Target.HERE, _answers("list[scenarios.JudgementAnswer]")),
                ("judge", Target.HERE, _answers("scenarios.JudgementAnswer")),
            )
        ),
    ),
    CommandEntry(
        "fault",
        "incidents.fault:app",
        suggestion=Suggestion(
            ("link", "impair", "fail", "break", "inject", "heal", "shutdown", "flap", "interface"),
            "rocelab fault inject link-down leaf1:swp1 takes a link down, rocelab fault ls --kinds has the others",
        ),
        below=(
            CommandEntry(
                "ls",
                target=Target.FABRIC,
                recorded=True,
                answers=_answers("list[faults.FaultEntry]", kinds="list[faults.FaultKind]"),
            ),
            CommandEntry("show", answers=_answers("faults.FaultKind")),
            CommandEntry(
                "inject",
                target=Target.FABRIC,
                recorded=True,
                answers=_answers("faults.FaultEntry | faults.FaultRun"),
            ),
            CommandEntry("heal", target=Target.FABRIC, recorded=True, answers=_answers("list[faults.FaultEntry]")),
        ),
    ),
    CommandEntry(
        "expect",
        "traffic.expect:expect",
        target=Target.FABRIC,
        recorded=True,
        answers=_answers("traffic.Expect"),
    ),
    CommandEntry(
        "capture",
        "packets.capture:capture",
        target=Target.FABRIC,
        attended=Attended.ALWAYS,
        recorded=True,
        answers=_answers("packets.CaptureAnswer"),
        suggestion=Suggestion(
            ("pcap", "sniff", "decode", "wireshark", "tshark"), "rocelab capture LINK, then rocelab dissect FILE"
        ),
    ),
    CommandEntry("dissect", "packets.dissect:dissect", answers=_answers("analysis.Dissect")),
    CommandEntry("analyze", "packets.analyze:analyze", answers=_answers("analysis.Analyze")),
    CommandEntry("follow", "packets.follow:follow", answers=_answers("analysis.Follow")),
    CommandEntry("extcap", "packets.extcap:extcap"),
    CommandEntry(
        "craft",
        "packets.craft:craft",
        target=TargetByOption("send", given=Target.FABRIC, absent=Target.HERE),
        attended=Attended.ALWAYS,
        recorded=True,
        answers=_answers("packets.Craft"),
    ),
    CommandEntry(
        "record",
        "incidents.record:app",
        below=(
            CommandEntry("start", target=Target.FABRIC, answers=_answers("recordings.Started")),
            CommandEntry("stop", target=Target.FABRIC, answers=_answers("recordings.RecordingAnswer")),
            CommandEntry("shell", target=Target.FABRIC, attended=Attended.ON_TERMINAL, open_ended=True),
            CommandEntry("ls", answers=_answers("list[recordings.RecordingSummaryAnswer]")),
            CommandEntry("show", answers=_answers("recordings.RecordingAnswer")),
        ),
    ),
    CommandEntry(
        "top",
        "incidents.top:top",
        target=TargetByOption("stream", given=Target.FABRIC, absent=Target.HOST),
        attended=Attended.ALWAYS,
        open_ended=True,
        answers=_answers("recordings.DashboardAnswer"),
        suggestion=Suggestion(
            ("htop", "stats", "monitor", "watch", "pfc"), "rocelab top, or rocelab counters --watch"
        ),
    ),
    CommandEntry(
        "live",
        "incidents.live:live",
        target=TargetByOption("stream", given=Target.FABRIC, absent=Target.HOST),
        attended=Attended.ALWAYS,
        open_ended=True,
        answers=_answers("recordings.LiveAnswer"),
        suggestion=Suggestion(
            ("browser", "web", "dashboard", "gui", "ui"), "rocelab live shows a fabric in the browser"
        ),
    ),
    CommandEntry(
        "replay",
        "incidents.replay:replay",
        answers=_answers("recordings.DashboardAnswer"),
        suggestion=Suggestion(("play", "playback"), "rocelab replay RUN plays a recording"),
    ),
    CommandEntry(
        "diagnose",
        "incidents.diagnose:diagnose",
        target=TargetByOption("run", given=Target.HERE, absent=Target.FABRIC),
        recorded=True,
        answers=_answers("diagnoses.DiagnosisAnswer"),
    ),
    CommandEntry(
        "alerts",
        "incidents.alerts:alerts",
        answers=_answers("list[recordings.AlertsAnswer]"),
        suggestion=Suggestion(
            ("alert", "rules", "alertmanager", "promtool"), "rocelab alerts RUN evaluates the rules on a recording"
        ),
    ),
    CommandEntry(
        "drift",
        "incidents.drift:drift",
        target=TargetByOption("run", given=Target.HERE, absent=Target.FABRIC),
        recorded=True,
        answers=_answers("drifts.Drift"),
        suggestion=Suggestion(
            ("audit", "plan", "changed", "config"), "rocelab drift compares a fabric with its plan"
        ),
    ),
    CommandEntry(
        "baseline",
        "incidents.baseline:app",
        suggestion=Suggestion(("normal", "anomaly", "deviation"), "rocelab baseline check RUN lists deviations"),
        below=(
            CommandEntry("learn", answers=_answers("baselines.BaselineAnswer")),
            CommandEntry("show", answers=_answers("baselines.BaselineAnswer")),
            CommandEntry("check", answers=_answers("baselines.BaselineCheck")),
        ),
    ),
    CommandEntry(
        "mcp",
        "agents.mcp:mcp",
        target=Target.HOST,
        open_ended=True,
        suggestion=Suggestion(("agent", "llm", "ai"), "rocelab mcp serves the fabric to an agent"),
    ),
    CommandEntry("report", "incidents.report:report", answers=_answers("reports.Reports")),
    CommandEntry(
        "compare",
        "incidents.compare:compare",
        answers=_answers("comparisons.ComparisonAnswer"),
        suggestion=Suggestion(("diff", "versus", "vs"), "rocelab compare A B compares two recordings"),
    ),
    CommandEntry("export", "fabrics.export:app", below=(CommandEntry("containerlab"), CommandEntry("clabernetes"))),
    CommandEntry("import", "fabrics.import_lab:app", below=(CommandEntry("containerlab"),)),
    CommandEntry(
        "vm",
        "machine.vm:app",
        below=(
            *(CommandEntry(name, target=Target.HOST) for name in ("build", "up", "run", "shell", "down")),
            CommandEntry("status", target=Target.HOST, answers=_answers("machine.VmStatus")),
            CommandEntry("ls", target=Target.HOST, answers=_answers("list[machine.ListedVm]")),
            CommandEntry(
                "checkpoint",
                below=(
                    *(CommandEntry(name, target=Target.HOST) for name in ("save", "restore", "rm")),
                    CommandEntry("ls", target=Target.HOST, answers=_answers("list[machine.CheckpointAnswer]")),
                ),
            ),
        ),
    ),
    CommandEntry("docs", "machine.docs:docs"),
)
"""The commands in the order of ``--help``: those that a newcomer needs first come first."""
COMMANDS: Final[Mapping[str, CommandEntry]] = {entry.name: entry for entry in _ENTRIES}
"""The commands and groups of ``rocelab``, by name."""


def find_command(path: Sequence[str]) -> CommandEntry | None:
    """Return the entry of a command by its path, ``("fault", "heal")``; None if there is none."""
    known, found = COMMANDS, None
    for name in path:
        found = known.get(name)
        if found is None:
            return None
        known = {entry.name: entry for entry in found.below}
    return found


def walk(
    entries: Sequence[CommandEntry] = _ENTRIES, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, CommandEntry]]:
    """Yield each command with its path as typed, ``fault heal``; groups are left out."""
    for entry in entries:
        path = (*above, entry.name)
        if entry.below:
            yield from walk(entry.below, path)
        else:
            yield " ".join(path), entry


def all_functions(entries: Sequence[CommandEntry] = _ENTRIES) -> Iterator[tuple[str, str]]:
    """Return name and function of each command and group that has a function in the registry."""
    for entry in entries:
        if entry.function:
            yield entry.name, entry.function
        yield from all_functions(entry.below)


def answer_models() -> dict[str, str]:
    """Return the models of all ``--json`` answers by command, such as ``counters --names``, and that of ``error``."""
    models = {"error": "machine.ErrorAnswer"}
    for path, entry in walk():
        models |= {f"{path} {option}".rstrip(): model for option, model in entry.answers.items()}
    return models


def suggestion_for(word: str) -> str:
    """Return what to use instead of the unknown command ``word``; "" without a suggestion."""
    suggestions = (entry.suggestion for entry in _ENTRIES if entry.suggestion is not None)
    return next((each.remedy.format(word=word) for each in suggestions if word in each.words), "")
