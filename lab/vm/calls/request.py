"""The host's request to run a command in the guest, and its encoding."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

_PYTEST: Final = "PYTEST_ADDOPTS"
BOOT_ENVIRONMENT = {
    "HOME": "/root",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/var/cache/hypothesis",  # the default is below the checkout
    "LANG": "C.UTF-8",
    "LOGNAME": "root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    _PYTEST: "-p no:cacheprovider",  # the cache would be in the checkout, which is read-only
    "PYTEST_PLUGINS": "lab.testing.plugin",  # rocelab is not installed in the guest, and has no entry points there
    "PYTHONPYCACHEPREFIX": "/var/cache/bytecode",
    "ROCELAB_IN_VM": "1",
    "SHELL": "/bin/bash",
    "USER": "root",
}
"""The environment of every command in the guest."""
ATTENDED: Final = "ROCELAB_ATTENDED"
"""Variable in a request's environment: "1" if a second must last a real second for the caller."""


@dataclass(frozen=True)
class GuestRequest:
    """A command to run in the guest."""

    argv: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    """Variables added to BOOT_ENVIRONMENT."""
    terminal: tuple[int, int] | None
    """Rows and columns of its terminal; None without one."""
    code: str
    """Fingerprint of the caller's rocelab: a resident process of another version is not used."""

    def to_json(self) -> bytes:
        """Return the JSON that ``from_json`` reads."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> GuestRequest:
        """Return the request that ``to_json`` encoded."""
        data: dict[str, Any] = json.loads(text)
        terminal = data["terminal"]
        return cls(**data | {"argv": tuple(data["argv"]), "terminal": tuple(terminal) if terminal else None})

    @property
    def attended(self) -> bool:
        """Whether a second must last a real second for its caller, even in virtual time while the guest is idle."""
        return self.environment.get(ATTENDED) == "1"

    @property
    def whole_environment(self) -> dict[str, str]:
        """The command's complete environment. The caller's pytest options come after the guest's."""
        words = [each[_PYTEST] for each in (BOOT_ENVIRONMENT, self.environment) if _PYTEST in each]
        return BOOT_ENVIRONMENT | self.environment | {_PYTEST: " ".join(words)}
