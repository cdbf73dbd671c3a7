"""The server of PMI-1, the protocol by which the ranks of an MPI job find each other (MPICH, "PMI-1 wire protocol").

Each rank has a socket to the launcher, whose number is in its variable PMI_FD, and writes lines such as
``cmd=put kvsname=job key=k value=v``. Ranks exchange the addresses of their QPs through ``put``, ``barrier_in`` and
``get``. No network is involved, so that a job needs no address of the launcher.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_REPLIES: Final = {
    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096",
    "get_appnum": "cmd=appnum rc=0 appnum=0",
    "get_my_kvsname": "cmd=my_kvsname rc=0 kvsname=job",
    "finalize": "cmd=finalize_ack rc=0",
}
_MAPPING: Final = "PMI_process_mapping"
_LONGEST: Final = 1 << 20
"""Octets of the longest line that a rank may send."""


@dataclass(slots=True)
class PmiServer:
    """The state of one job: what its ranks have published, and which of them wait."""

    ranks: int
    values: dict[str, str] = field(default_factory=dict)
    _waiting: set[int] = field(default_factory=set)
    _begun: dict[int, bytes] = field(default_factory=dict)

    def receive(self, rank: int, octets: bytes) -> list[tuple[int, bytes]]:
        """Return the replies to what ``rank`` sent, each with the rank that gets it. ValueError for no PMI-1."""
        *lines, rest = (self._begun.pop(rank, b"") + octets).split(b"\n")
        if len(rest) > _LONGEST:
            raise ValueError("an endless line")
        self._begun[rank] = rest
        return [reply for line in lines for reply in self._answer(rank, line.decode("utf-8", "replace"))]

    def _answer(self, rank: int, line: str) -> list[tuple[int, bytes]]:
        words = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        command = words.get("cmd", "")
        if command == "barrier_in":
            return self._barrier(rank)
        if command == "abort":
            return []  # its exit code follows
        return [(rank, _line(self._reply(command, words)))]

    def _barrier(self, rank: int) -> list[tuple[int, bytes]]:
        self._waiting.add(rank)
        if len(self._waiting) < self.ranks:
            return []
        self._waiting.clear()
        return [(each, _line("cmd=barrier_out rc=0")) for each in range(self.ranks)]

    def _reply(self, command: str, words: dict[str, str]) -> str:
        key = words.get("key", "")
        if command == "put":
            self.values[key] = words.get("value", "")
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            return self._get(key)
        if command == "get_universe_size":
            return f"cmd=universe_size rc=0 size={self.ranks}"
        if command in _REPLIES:
            return _REPLIES[command]
        raise ValueError(f"the unknown command {command!r}")

    def _get(self, key: str) -> str:
        # One rank on each of as many nodes: MPICH would use shared memory between ranks of one node.
        value = f"(vector,(0,{self.ranks},1))" if key == _MAPPING else self.values.get(key)
        if value is None:
            return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
        return f"cmd=get_result rc=0 msg=success value={value}"


def _line(text: str) -> bytes:
    return f"{text}\n".encode()
