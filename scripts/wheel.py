"""What a wheel carries beside the package, in it: examples, and what the VM's image is built from.

An editable installation has all this beside the package, in its checkout.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = ("topologies", "scenarios", "scripts/guest", "scripts/requirements-dev.lock")


class CarryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Asked by hatchling before it builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what is carried to a wheel that is installed as such."""
        if version == "standard":
            build_data["force_include"].update({name: f"lab/shipped/{name}" for name in CARRIED})
