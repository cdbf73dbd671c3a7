"""Queue pairs of rxe that a test drives: ``live_qp.py`` runs beside their device, and this talks to it."""

from __future__ import annotations

import json
from ipaddress import IPv6Address, ip_address
from itertools import count
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, Final, Self

from lab.kernel.process import process
from lab.rdma import sysfs

if TYPE_CHECKING:
    from types import TracebackType

    from lab.kernel.process.netns import Namespace
    from lab.rdma.measure import Nic

IBV_WC_SUCCESS: Final = 0
IBV_QPS_RTS: Final = 3
IBV_QPS_ERR: Final = 6
QKEY: Final = 0x11111111
"""That of every UD queue pair here."""
_SYSTEM_PYTHON: Final = "/usr/bin/python3"  # pyverbs is a package of the distribution


class Verbs:
    """``live_qp.py`` as a process in a namespace, which may have many queue pairs; a context manager."""

    def __init__(self, namespace: Namespace) -> None:
        pipe = process.PIPE
        program: list[str | File] = [_SYSTEM_PYTHON, File(__file__).with_name("live_qp.py")]
        self._process = namespace.start(program, stdin=pipe, stdout=pipe, stderr=pipe)
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=20)

    def number(self) -> int:
        """A number that no queue pair has yet."""
        return next(self._numbers)

    def ask(self, pair: int, what: str, **arguments: Any) -> Any:
        """The answer to a line; AssertionError with the traceback when it was a failure."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"pair": pair, "do": what, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(self._process.communicate(timeout=20)[1])
        said = json.loads(line)
        if isinstance(said, dict) and "failure" in said:
            raise AssertionError(said["failure"])
        return said


class QueuePair:
    """A queue pair at ``nic``, not connected yet; a context manager. Its attributes are what a peer must know."""

    def __init__(
        self,
        verbs: Verbs,
        nic: Nic,
        transport: str = "RC",
        *,
        mtu: int = 1024,
        fill: str = ".",
        rights: bool = True,
    ) -> None:
        self.address = str(nic.address)
        self._verbs = verbs
        self._number = verbs.number()
        index = sysfs.gid_index(nic.device, nic.address)
        wanted = {"device": nic.device, "gid_index": index, "transport": transport, "mtu": mtu}
        ready = self.ask("create", **wanted, fill=fill, rights=rights)
        self.qpn, self.va, self.rkey = int(ready["qpn"]), int(ready["va"]), int(ready["rkey"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ask("close")

    def connect(self, address: str, qpn: int = 0, *, epsn: int = 0, psn: int = 0) -> None:
        """Expect packets from ``address`` from PSN ``epsn`` on, and send to its ``qpn`` from ``psn`` on."""
        parsed = ip_address(address)
        gid = parsed if isinstance(parsed, IPv6Address) else IPv6Address(f"::ffff:{parsed}")
        self.ask("connect", gid=gid.packed.hex(":", 2), qpn=qpn, epsn=epsn, psn=psn)

    def ask(self, what: str, **arguments: Any) -> Any:
        """What the method of ``live_qp.Live`` answers."""
        return self._verbs.ask(self._number, what, **arguments)

    @property
    def memory(self) -> bytes:
        """The first 64 octets of its memory."""
        return bytes.fromhex(self.ask("memory_head"))

    @property
    def state(self) -> int:
        """One of the ``IBV_QPS_`` values."""
        return int(self.ask("state"))

    @property
    def completion(self) -> dict[str, int] | None:
        """The next completed request, waited for; None when there is none in ten seconds."""
        found: dict[str, int] | None = self.ask("completion")
        return found
