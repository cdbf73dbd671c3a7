"""Rules of the key ``qos``: names and places must exist, and sizes must fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lab.model.qos.check import node_faults
from lab.model.qos.presets import PRESETS, suggest_profile
from lab.model.qos.profile import NicProfile
from lab.model.qos.resolve import resolve
from lab.model.topology import Role
from lab.model.values.suggest import suggest
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.qos.check import QosFault
    from lab.model.qos.profile import Amount, QosIntent, QosProfile
    from lab.model.qos.qos_spec import QosSpec
    from lab.model.spec import TopologySpec
    from lab.model.topology import Node, Topology
    from lab.model.values.yamltext import Path


def check_names(spec: QosSpec, profiles: frozenset[str]) -> Iterator[SpecFinding]:
    """Yield attached profiles that do not exist, and profiles named like a preset.

    ``profiles`` are the names in the file, whether their profiles are valid or not.
    """
    for name in spec.profiles:
        if name in PRESETS:
            yield SpecFinding(("qos", "profiles", name), "is the name of a preset", "choose another name")
    known = [*PRESETS, *profiles]
    for place, names in _attachments(spec):
        for name in names:
            if name not in known:
                remedy = suggest_profile(
                    name, known, f"the presets are {', '.join(PRESETS)}; add others to qos.profiles"
                )
                said = name if name.isprintable() else ascii(name)
                yield SpecFinding(("qos", *place), f"there is no profile {said}", remedy)


def check_orders(spec: TopologySpec) -> Iterator[SpecFinding]:
    """Yield pairs of thresholds in one profile that are in the wrong order at any rate, because they share a unit.

    This is for files with other errors, whose sums cannot be computed; ``check_numbers`` includes these findings.
    """
    path: Path
    for name, profile in spec.qos.profiles.items() if spec.qos else ():
        for queue, ecn in profile.ecn.items():
            if _above(ecn.kmin, ecn.kmax):
                path = ("qos", "profiles", name, "ecn", str(queue), "kmin")
                yield SpecFinding(path, "is above kmax", "choose kmin <= kmax")
        for number, group in profile.buffer.groups.items():
            if _above(group.xon, group.xoff):
                path = ("qos", "profiles", name, "buffer", "groups", str(number), "xon")
                yield SpecFinding(path, "is above xoff", "a pause ends below where it began; lower xon")


def _above(lower: Amount | None, upper: Amount | None) -> bool:
    return lower is not None and upper is not None and type(lower) is type(upper) and lower > upper


def _attachments(spec: QosSpec) -> Iterator[tuple[Path, list[str]]]:
    yield ("fabric",), spec.fabric
    for role in Role:
        yield ("roles", role.value), getattr(spec.roles, role)
    for kind in ("nodes", "interfaces"):
        for place, names in getattr(spec, kind).items():
            yield (kind, place), names


def check_places(topology: Topology) -> Iterator[SpecFinding]:
    """Yield attachments to nodes and interfaces that do not exist, or that cannot have the profile."""
    if (intent := topology.qos) is None:
        return
    for name in intent.nodes:
        if name not in topology.by_name:
            remedy = suggest(name, topology.by_name, "see `rocelab topology show --json` for the nodes")
            yield SpecFinding(("qos", "nodes", name), f"there is no node {name}", remedy)
    ends = [str(end) for link in topology.links for end in link.ends]
    for name in intent.interfaces:
        node = name.partition(":")[0]
        if node not in topology.by_name:
            remedy = suggest(node, topology.by_name, "see `rocelab topology show --json` for the nodes")
            yield SpecFinding(("qos", "interfaces", name), f"there is no node {node}", remedy)
        elif name not in ends:
            remedy = suggest(name, ends, "see `rocelab topology show --json` for the interfaces")
            yield SpecFinding(("qos", "interfaces", name), "there is no such interface", remedy)
    yield from _only_for_hosts(topology, intent)
    for port, names in intent.interfaces.items():
        for name in names:
            if name in intent.profiles and intent.profiles[name].buffer.pool is not None:
                message = f"{name} has buffer.pool, which belongs to a whole node"
                yield SpecFinding(("qos", "interfaces", port), message, "attach it to a node, a role or the fabric")


def _only_for_hosts(topology: Topology, intent: QosIntent) -> Iterator[SpecFinding]:
    """Yield settings of NICs attached to switches. At the fabric they are allowed, and apply to hosts."""
    places = [(("roles", role), Role(role), names) for role, names in intent.roles.items()]
    for kind, attached in (("nodes", intent.nodes), ("interfaces", intent.interfaces)):
        for place, names in attached.items():
            node = topology.by_name.get(place.partition(":")[0])
            places += [((kind, place), node.role, names)] if node else []
    for path, role, names in places:
        for name in names if role.is_switch else ():
            nic = intent.profiles[name].nic if name in intent.profiles else NicProfile()
            for key, given in (("nic.drain", nic.drain is not None), ("nic.cc", bool(nic.cc))):
                if given:
                    message = f"{name} has {key}, which is for hosts, not for a {role}"
                    yield SpecFinding(("qos", *path), message, "attach it to hosts")


def check_numbers(topology: Topology, reaction: float) -> Iterator[SpecFinding]:
    """Yield all faults that depend on the links' rates, at the profile that causes them."""
    if (intent := topology.qos) is None:
        return
    for name, qos in resolve(topology, reaction).items():
        for fault in node_faults(qos):
            yield SpecFinding(_blamed(intent, topology.node(name), fault), fault.message, fault.remedy)


def _blamed(intent: QosIntent, node: Node, fault: QosFault) -> Path:
    """Return the place in the file of a field at fault, in the most specific profile of the node that sets one."""
    ports = [port for port in intent.interfaces if port.partition(":")[0] == node.name]
    names = [*intent.at_node(node), *(name for port in ports for name in intent.interfaces[port])]
    for name in reversed(names):
        for field in fault.fields:
            if name in intent.profiles and _says(intent.profiles[name], field):
                return ("qos", "profiles", name, *field)
    return ("qos",)


def _says(profile: QosProfile, field: Path) -> bool:
    here: object = profile
    for part in field:
        here = here.get(int(part)) if isinstance(here, Mapping) else getattr(here, str(part), None)
    return here is not None
