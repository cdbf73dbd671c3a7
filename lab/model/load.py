"""Load a topology file into a ``Topology``: fill in defaults, check all rules, report all problems at once.

The stages are:

- the YAML syntax
- the form (``validate``)
- the meaning (``rules.check_spec``)
- the construction of the topology
- the fabric as a whole (``rules.check_topology``)
- the sums of its buffers (``qos_rules.check_numbers``)

All stages report together. Findings that depend on a section that is wrong are left out, as consequences.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.errors import InvalidInput, Problem, UsageError
from lab.model.generate import Cable, LinkIndex, generate, number_interfaces
from lab.model.overlay.intent import Flooding
from lab.model.overlay.overlay_build import make_overlay
from lab.model.overlay.overlay_rules import check_attachments, check_overlay
from lab.model.qos.headroom import HOST_REACTION
from lab.model.qos.qos_rules import check_numbers, check_orders
from lab.model.qos.qos_spec import make_intent
from lab.model.rules import check_node_names, check_spec, check_topology
from lab.model.topology import Addressing, Bfd, DeclaredFault, Link, Node, Role, Routing, Topology, Underlay
from lab.model.values.fields import check_fabric_name
from lab.model.values.validate import SpecFinding, validate
from lab.model.values.yamltext import MAX_TEXT, Document, format_path, read_yaml
from lab.shipped import shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lab.model.spec import AddressingSpec, TopologySpec

Rules: TypeAlias = "Callable[[Topology], Iterable[SpecFinding]]"
MAX_PROBLEMS: Final = 50
"""The most problems in one report."""
_STRUCTURE: Final = {"", "generate", "nodes", "links"}
"""Sections that define the nodes and links; without them the fabric cannot be built."""
_NETWORK: Final = 3
"""The length of a network's path. A finding about a whole network means that its packets do not fit the links."""
_EXAMPLES: Final = "topologies"
"""The folder of the topologies that come with rocelab."""
_SUMS: Final = {*_STRUCTURE, "defaults", "overrides", "qos"}
"""Sections that the sums of buffers depend on."""


def no_more(_: Topology) -> Iterable[SpecFinding]:
    """Default for ``also``: no further rules."""
    return ()


def read_topology(path: Path, reaction: float = HOST_REACTION, also: Rules = no_more) -> Topology:
    """Load the file at ``path``; raise UsageError if it cannot be read, and InvalidInput if it breaks rules.

    ``reaction`` is the time in seconds that the target machine takes to react; the headroom of ports depends on it.
    ``also`` adds rules of other packages: ``lab.faults.declared`` checks the faults.
    """
    return load_topology(read_text(path), str(path), reaction, also)


def read_text(path: Path, wanted: str = "a topology file", hint: str = "rocelab examples copy has some") -> str:
    """Return the text of a file; raise UsageError with the reason if it cannot be read.

    The remedy is to name the file that is ``wanted``, with a ``hint`` where it comes from.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(4 * MAX_TEXT + 1)
        return raw.decode()
    except FileNotFoundError as error:
        is_example = path.parts == (_EXAMPLES, path.name) and shipped(str(path)).is_file()
        remedy = f"rocelab examples copy {path}" if is_example else f"name {wanted}; {hint}"
        raise UsageError(f"there is no file {path}", remedy) from error
    except IsADirectoryError as error:
        raise UsageError(f"{path} is a directory", f"name {wanted} in it") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", "save it as UTF-8") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {path} ({why})", "check its name and permissions") from error


def load_topology(
    text: str, source: str = "<text>", reaction: float = HOST_REACTION, also: Rules = no_more
) -> Topology:
    """Build the fabric that ``text`` describes; raise InvalidInput with every problem and its line in ``source``."""
    document = read_yaml(text, source)
    _refuse_job(document, source)
    draft, findings = validate(document.data)
    if draft is None:
        _raise_any(source, document, findings)
        raise AssertionError(source)  # pragma: no cover - validate gives no draft only with findings
    findings += islice(check_spec(draft), MAX_PROBLEMS)
    overlay = draft.spec.overlay
    findings += _news(
        document, findings, () if overlay is None else check_overlay(overlay, draft.spec.routing.underlay)
    )
    if (wrong := _wrong(document, findings)) & _STRUCTURE:
        findings += chain(check_node_names(draft), check_orders(draft.spec))
        _raise_any(source, document, findings)
    topology = _build(draft.spec)
    findings += (found for found in check_topology(topology, draft.spec) if not wrong & _needed_by(found))
    topology = replace(topology, links=_overridden(draft.spec, topology.links))
    findings += _news(document, findings, () if overlay is None else check_attachments(topology, overlay))
    findings += check_orders(draft.spec) if _wrong(document, findings) & _SUMS else check_numbers(topology, reaction)
    if _none_cut_out(document, topology):
        findings += also(topology)
    _raise_any(source, document, findings)
    return topology


def _refuse_job(document: Document, source: str) -> None:
    """Raise InvalidInput for the file of a training job."""
    data = document.data
    if isinstance(data, dict) and "compute" in data and not {"generate", "nodes", "links"} & data.keys():
        line, remedy = document.line(("compute",)), "rocelab job train runs it in a fabric"
        raise InvalidInput(source, [Problem("", "is a training job, not a topology", remedy, line=line)])


def _none_cut_out(document: Document, topology: Topology) -> bool:
    """Return whether faults keep the numbers they have in the file. Faults without kind or place are left out."""
    written = document.data.get("faults") if isinstance(document.data, dict) else None
    return not isinstance(written, list) or len(written) == len(topology.faults)


def _wrong(document: Document, findings: Iterable[SpecFinding]) -> set[str]:
    """Return the places of the file that are wrong, and their sections; "" is the file itself."""
    places = {problem.path for problem in document.problems} | {format_path(found.path) for found in findings}
    return places | {re.split(r"[.\[]", place, maxsplit=1)[0] for place in places}


def _news(document: Document, known: list[SpecFinding], found: Iterable[SpecFinding]) -> list[SpecFinding]:
    """Return the findings that are no consequence: neither their place nor its dependencies are already wrong."""
    wrong = _wrong(document, known)
    return [finding for finding in islice(found, MAX_PROBLEMS) if not wrong & _needed_by(finding)]


def _needed_by(finding: SpecFinding) -> set[str]:
    """Return the places that must be right for this finding to be more than a consequence."""
    place = format_path(finding.path)
    if finding.path[:1] == ("overlay",):
        return {place, "defaults", "overrides"} if len(finding.path) == _NETWORK else {place}
    return {place, "routing.host_family"} if finding.path[:1] == ("addressing",) else set()


def renamed(topology: Topology, name: str) -> Topology:
    """Return ``topology`` under another name; raise InvalidInput if that is not a valid fabric name."""
    try:
        return replace(topology, name=check_fabric_name(name))
    except ValueError as error:
        message, _, remedy = str(error).partition("; ")
        raise InvalidInput("--name", [Problem("", message, remedy)]) from error


def _raise_any(source: str, document: Document, findings: Iterable[SpecFinding]) -> None:
    problems = set(document.problems)
    refused = {problem.path for problem in problems}
    for path, message, remedy in islice(findings, MAX_PROBLEMS):
        if format_path(path) not in refused:
            problems.add(Problem(path=format_path(path), message=message, remedy=remedy, line=document.line(path)))
    if problems:
        raise InvalidInput(source, sorted(problems, key=lambda problem: (problem.line, problem))[:MAX_PROBLEMS])


def _build(spec: TopologySpec) -> Topology:
    if spec.generate is not None:
        nodes, cables = generate(spec.generate, spec.defaults)
    else:
        nodes, cables = _written(spec)
    roles = {node.name: node.role for node in nodes}
    built = Topology(
        name=spec.name,
        nodes=tuple(nodes),
        links=number_interfaces(cables, roles),
        routing=_routing(spec),
        description=spec.description,
        addressing=_addressing(spec.addressing),
        qos=None if spec.qos is None else make_intent(spec.qos),
        frr=spec.frr,
        faults=tuple(
            DeclaredFault(**{key: getattr(each, key) for key in type(each).model_fields}) for each in spec.faults
        ),
    )
    if spec.overlay is None:
        return built
    return replace(built, overlay=make_overlay(spec.overlay, built))


def _written(spec: TopologySpec) -> tuple[list[Node], list[Cable]]:
    """Return nodes from the top tier down, each tier in the order of the text, and cables in that order."""
    nodes = [
        Node(
            name=name,
            role=node.role,
            pod=node.pod or 0,
            rdma=node.role is Role.HOST and node.rdma is not False,
        )
        for name, node in spec.nodes.items()
    ]
    nodes.sort(key=lambda node: -node.role.tier)
    other = spec.defaults
    cables = [
        Cable(
            ends=(link.ends[0], link.ends[1]),
            rate=other.rate if link.rate is None else link.rate,
            mtu=other.mtu if link.mtu is None else link.mtu,
            delay=other.delay if link.delay is None else link.delay,
        )
        for link in spec.links
    ]
    return nodes, cables


def _overridden(spec: TopologySpec, links: tuple[Link, ...]) -> tuple[Link, ...]:
    changed = list(links)
    places = LinkIndex(links) if spec.overrides else None
    for name, settings in spec.overrides.items():
        for place in places.called(name) if places else ():
            changed[place] = replace(changed[place], **settings.model_dump(exclude_none=True))
    return tuple(changed)


def _routing(spec: TopologySpec) -> Routing:
    written = spec.routing
    underlay = written.underlay or (spec.overlay.underlay if spec.overlay else None) or Underlay.EBGP
    enabled = written.bfd.enabled
    if enabled is None:
        enabled = underlay.is_igp or spec.overlay is None or spec.overlay.flooding is not Flooding.MULTICAST
    return Routing(
        hash_policy=written.hash_policy,
        hash_seed=written.hash_seed,
        host_family=written.host_family,
        bfd=Bfd(enabled=enabled, interval=written.bfd.interval, multiplier=written.bfd.multiplier),
        underlay=underlay,
    )


def _addressing(spec: AddressingSpec) -> Addressing:
    return Addressing(**{name: getattr(spec, name) for name in type(spec).model_fields})
