"""Load packet descriptions from YAML or from options. Unknown keys are rejected.

For each packet, invalid values are reported first. Whether the keys match each other is checked only if all values
are valid. A file has one packet, or a list of packets with shared defaults::

    defaults: {dst: 10.0.0.2, qp: 0x11}
    packets:
      - {kind: write, psn: 100, va: 0x1000, rkey: 0x22, payload: hello}
      - {kind: write, psn: 101, wrong-psn: 5, payload: lost}
      - {kind: nak, psn: 101}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from lab.errors import InvalidInput, Problem
from lab.model.values.suggest import suggest
from lab.model.values.yamltext import Document, Path, Value, format_path, read_yaml, show
from lab.wire.craft.packet_craft import check
from lab.wire.craft.packet_spec import PacketSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails

MAX_PACKETS: Final = 10_000
"""Packets in one file."""
_MAX_PROBLEMS: Final = 50
_KEYS: Final = {field.alias or name: name for name, field in PacketSpec.model_fields.items()}


def load_packets(text: str, source: str) -> list[PacketSpec]:
    """Return the packets that ``text`` describes. InvalidInput has up to 50 problems, by line in ``source``."""
    document = read_yaml(text, source)
    problems = list(document.problems)
    packets = []
    for path, written, defaults in _entries(document, problems):
        packet, found = _packet(written, defaults)
        packets += [packet] if packet is not None else []
        for key, message, remedy in found:
            here = (*path, key) if key in written or key not in defaults else ("defaults", key)
            problems.append(Problem(path=format_path(here), message=message, remedy=remedy, line=document.line(here)))
    if problems:
        once = sorted(set(problems), key=lambda problem: (problem.line, problem))
        raise InvalidInput(source, once[:_MAX_PROBLEMS])
    return packets


def packet_from_options(written: Mapping[str, Value], source: str = "rocelab craft") -> PacketSpec:
    """Return the packet that ``written`` describes, by key. InvalidInput names the invalid options."""
    packet, found = _packet(written, {})
    if packet is None or found:
        raise InvalidInput(source, [_option_problem(*each) for each in found])
    return packet


def _option_problem(key: str, message: str, remedy: str) -> Problem:
    return Problem("KIND" if key == "kind" else f"--{key}", message, remedy)


def _entries(
    document: Document, problems: list[Problem]
) -> Iterator[tuple[Path, dict[str, Value], dict[str, Value]]]:
    """Yield each packet: its path in the document, its own keys, and the shared keys."""

    def complain(path: Path, message: str, remedy: str) -> None:
        problems.append(Problem(path=format_path(path), message=message, remedy=remedy, line=document.line(path)))

    data = document.data
    if not isinstance(data, dict):
        complain((), f"must be a mapping, not {show(data)}", "write `kind: write`, or a list of `packets`")
        return
    if "packets" not in data:
        yield (), data, {}
        return
    for key in data.keys() - {"packets", "defaults"}:
        complain((key,), "is not a known key", "beside packets there is only defaults")
    packets, defaults = data["packets"], data.get("defaults", {})
    if not isinstance(packets, list) or not 0 < len(packets) <= MAX_PACKETS:
        complain(("packets",), f"must be a list of 1 to {MAX_PACKETS} packets", "write each as a `- kind: ...` line")
        return
    if not isinstance(defaults, dict):
        complain(("defaults",), f"must be a mapping, not {show(defaults)}", "write `key: value` lines below it")
        return
    for number, packet in enumerate(packets):
        if isinstance(packet, dict):
            yield ("packets", number), packet, defaults
        else:
            complain(("packets", number), f"must be a mapping, not {show(packet)}", "write it like `- kind: ack`")


def _packet(
    written: Mapping[str, Value], defaults: Mapping[str, Value]
) -> tuple[PacketSpec | None, list[tuple[str, str, str]]]:
    """Return the packet, None if a value is invalid, and its problems: key, message, remedy."""
    try:
        spec = PacketSpec.model_validate({**defaults, **written})
    except ValidationError as error:
        return None, [_explain(detail) for detail in error.errors()]
    given = {_KEYS[key] for key in written}
    return spec, [(misfit.key.replace("_", "-"), misfit.message, misfit.remedy) for misfit in check(spec, given)]


def _explain(detail: ErrorDetails) -> tuple[str, str, str]:
    key = str(detail["loc"][0])
    if detail["type"] == "extra_forbidden":
        return key, "is not a known key", suggest(key, _KEYS, "see `rocelab craft --help`")
    if detail["type"] == "missing":
        return key, "is missing", "add it: write, read, send, ack, nak, cnp, pfc, ..."
    if detail["type"] == "bool_type":
        return key, f"{show(detail['input'])} is neither true nor false", "write true or false"
    message, _, remedy = str(detail.get("ctx", {}).get("error", detail["msg"])).partition("; ")
    return key, message, remedy
