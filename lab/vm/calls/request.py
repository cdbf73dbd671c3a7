"""The request by which the host has the guest run a command, and its form on the way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

_PYTEST: Final = "PYTEST_ADDOPTS"
BOOT_ENVIRONMENT = {
    "HOME": "/root",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/var/cache/hypothesis",  # by default below the checkout
    "LANG": "C.UTF-8",
    "LOGNAME": "root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    _PYTEST: "-p no:cacheprovider",  # it would be in the checkout, which is read-only
    "PYTEST_PLUGINS": "lab.testing.plugin",  # rocelab is not installed there, and has no entry points
    "PYTHONPYCACHEPREFIX": "/var/cache/bytecode",
    "ROCELAB_IN_VM": "1",
    "SHELL": "/bin/bash",
    "USER": "root",
}
"""What every command in the guest finds in its environment."""
ATTENDED: Final = "ROCELAB_ATTENDED"
"""In the environment of a request: "1" when a second has to last a second for the caller."""


@dataclass(frozen=True)
class GuestRequest:
    """One command."""

    argv: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    """What the caller adds to BOOT_ENVIRONMENT."""
    terminal: tuple[int, int] | None
    """Rows and columns when it is to run on a terminal."""
    code: str
    """Fingerprint of the caller's rocelab: a resident one of another kind does not answer."""

    def to_json(self) -> bytes:
        """As text, to be read by ``from_json``."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> GuestRequest:
        """Read what ``to_json`` wrote."""
        data: dict[str, Any] = json.loads(text)
        terminal = data["terminal"]
        return cls(**data | {"argv": tuple(data["argv"]), "terminal": tuple(terminal) if terminal else None})

    @property
    def attended(self) -> bool:
        """Whether a second has to last a second for its caller, even where time is virtual and nothing happens."""
        return self.environment.get(ATTENDED) == "1"

    @property
    def whole_environment(self) -> dict[str, str]:
        """All that the command finds in its environment; the caller's words for pytest come after the guest's."""
        words = [each[_PYTEST] for each in (BOOT_ENVIRONMENT, self.environment) if _PYTEST in each]
        return BOOT_ENVIRONMENT | self.environment | {_PYTEST: " ".join(words)}
