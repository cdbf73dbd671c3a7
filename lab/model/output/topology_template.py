"""Generate a topology file with a comment for each key, ready for editing."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Final

from lab.model.load import load_topology
from lab.model.overlay.intent import VXLAN_OVERHEAD
from lab.model.overlay.overlay_spec import OverlaySpec
from lab.model.overlay.tenancy import deal
from lab.model.qos.presets import DEFAULT, PRESETS
from lab.model.spec import SHAPES, DefaultsSpec, TopologySpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic.fields import FieldInfo

_DEFAULTS: Final = {"rate": "1Gbit", "mtu": 9000, "delay": "0us"}
_EXAMPLE_RATE: Final = "10Gbit"
_EXAMPLES: Final = {"fabric_mtu": 9050}
"""Values of keys that are commented out, unless they are rates."""


def new_topology(
    name: str, shape: str, settings: Mapping[str, object], defaults: Mapping[str, object], qos: str | None = None
) -> str:
    """Return the YAML text of a fabric of ``shape``; None in a mapping stands for the default.

    ``qos`` is the name of a preset; without it, the key is commented out. InvalidInput is raised as on loading.
    """
    text = "\n".join(_lines(name, shape, settings, defaults, qos)) + "\n"
    load_topology(text, "these options")
    return text


def room_for_tunnels(mtu: int | None) -> dict[str, object]:
    """Return the setting with which links between switches carry tunnels of MTU ``mtu``; None: the default."""
    return {"fabric_mtu": (mtu or int(str(_DEFAULTS["mtu"]))) + VXLAN_OVERHEAD}


def with_tenants(text: str, tenants: int) -> str:
    """Return the file with its hosts distributed among ``tenants`` tenants; UsageError if there are fewer hosts."""
    dealt = [*text.splitlines(), "", *_overlay(), *deal(load_topology(text, "these options"), tenants)]
    found = "\n".join(dealt) + "\n"
    load_topology(found, "these options")
    return found


def _overlay() -> Iterator[str]:
    """Yield the keys of an overlay before its tenants."""
    yield from _comment(TopologySpec.model_fields["overlay"].description or "", "# ")
    yield "overlay:"
    for key in ("design", "gateway_mac"):
        field = OverlaySpec.model_fields[key]
        yield from _comment(field.description or "", "  # ")
        yield f"  {key}: {_scalar(str(field.get_default()))}"


def _lines(
    name: str, shape: str, settings: Mapping[str, object], defaults: Mapping[str, object], qos: str | None
) -> Iterator[str]:
    yield "# A fabric for rocelab. After a change: rocelab topology check FILE; then: rocelab up FILE"
    yield ""
    yield f"name: {_scalar(name)}"
    yield ""
    yield "defaults:"
    for key, field in DefaultsSpec.model_fields.items():
        chosen = defaults.get(key)
        yield from _entry(key, field, _DEFAULTS[key] if chosen is None else chosen)
    yield ""
    yield "generate:"
    for key, field in _ordered(SHAPES[shape].model_fields):
        yield from _entry(key, field, shape if key == "shape" else settings.get(key))
    yield ""
    yield from _comment(TopologySpec.model_fields["qos"].description or "", "# ")
    yield f"# The presets are {', '.join(PRESETS)}."
    yield f"qos: {_scalar(qos)}" if qos is not None else f"# qos: {DEFAULT}"


def _ordered(fields: Mapping[str, FieldInfo]) -> list[tuple[str, FieldInfo]]:
    """Return the counts first, then the rest, each in the order of the spec."""
    common = {"host_rate", "fabric_rate", "superspine_rate", "fabric_mtu", "rdma"}
    return sorted(fields.items(), key=lambda item: item[0] in common)


def _entry(key: str, field: FieldInfo, value: object) -> Iterator[str]:
    yield from _comment(field.description or "", "  # ")
    if value is None:
        value = field.get_default()
    yield f"  {key}: {_scalar(value)}" if value is not None else f"  # {key}: {_EXAMPLES.get(key, _EXAMPLE_RATE)}"


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, width=96, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _scalar(value: object) -> str:
    """Format a value as YAML: words and numbers plain, others quoted as JSON, which is valid YAML."""
    plain = isinstance(value, str) and re.fullmatch(r"[\w./-]+", value, re.ASCII)
    return str(value) if plain else json.dumps(value)
