"""A program with queue pairs, driven line by line; the system's Python runs it (pyverbs).

Each line is a JSON document, and so is each answer. ``pair`` is a number that its sender chose. ``do`` is ``create``,
with what ``Live`` takes, and the answer is what a peer must know; or a method of ``Live`` with its arguments; and in
the end ``close``. A failure is answered by a document with its ``failure``.
"""

from __future__ import annotations

import json
import socket
import sys
import time
import traceback
from typing import Any

from pyverbs import enums
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR

SIZE = 4096
SHOWN = 64
PATIENCE = 10.0
QKEY = 0x11111111
TCLASS = 106  # DSCP 26 and ECT(0)


class Live:
    """A queue pair, its memory and its completion queue.

    ``wanted`` has ``device``, ``gid_index``, ``transport`` (RC, UC or UD), ``mtu``, ``fill`` (what the memory is full
    of) and ``rights`` (whether the peer may use it at all).
    """

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.wanted = wanted
        self.rights = enums.IBV_ACCESS_REMOTE_WRITE | enums.IBV_ACCESS_REMOTE_READ | enums.IBV_ACCESS_REMOTE_ATOMIC
        self.rights |= enums.IBV_ACCESS_FLUSH_GLOBAL
        self.context = Context(name=wanted["device"])
        self.domain = PD(self.context)
        self.memory = MR(self.domain, SIZE, self.rights | enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_MW_BIND)
        self.memory.write(wanted["fill"] * SIZE, SIZE)
        self.windows: list[MW] = []
        self.completions = CQ(self.context, 64)
        self.pair = self.create_pair()

    def create_pair(self) -> QP:
        """The queue pair; one of RC can do what ``post_placement`` asks for, too."""
        room = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=1, max_recv_sge=1)
        kind = getattr(enums, f"IBV_QPT_{self.wanted['transport']}")
        common = {"qp_type": kind, "scq": self.completions, "rcq": self.completions, "cap": room}
        if self.wanted["transport"] != "RC":
            return QP(self.domain, QPInitAttr(**common))
        mask = enums.IBV_QP_INIT_ATTR_PD | enums.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        flags = enums.IBV_QP_EX_WITH_FLUSH | enums.IBV_QP_EX_WITH_ATOMIC_WRITE
        return QPEx(self.context, QPInitAttrEx(**common, pd=self.domain, comp_mask=mask, send_ops_flags=flags))

    def connect(self, gid: str, qpn: int, epsn: int, psn: int) -> None:
        """Get ready to receive from PSN ``epsn`` on, and to send from ``psn`` on."""
        route = GlobalRoute(dgid=GID(gid), sgid_index=self.wanted["gid_index"], hop_limit=64, traffic_class=TCLASS)
        address = AHAttr(gr=route, is_global=1, port_num=1)
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = self.rights if self.wanted["rights"] else 0
        attributes.qkey = QKEY
        attributes.sq_psn = psn
        if self.wanted["transport"] == "UD":
            self.peer = AH(self.domain, attr=address)
            self.pair.to_rts(attributes)
            return
        attributes.ah_attr = address
        attributes.path_mtu = getattr(enums, f"IBV_MTU_{self.wanted['mtu']}")
        attributes.dest_qp_num = qpn
        attributes.rq_psn = epsn
        attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 1
        attributes.min_rnr_timer = 12
        attributes.timeout = 0  # never: what is sent again was asked for
        attributes.retry_cnt = 3
        attributes.rnr_retry = 7  # without end
        self.pair.to_rts(attributes)

    def memory_head(self) -> str:
        """The first octets of the memory, in hexadecimal."""
        return str(self.memory.read(SHOWN, 0).hex())

    def state(self) -> int:
        """The state of the queue pair."""
        return int(self.pair.query(enums.IBV_QP_STATE)[0].qp_state)

    def receive(self, size: int, lkey: int | None = None) -> None:
        """Post a receive of ``size`` octets; ``lkey`` in place of the memory's own makes it a bad one."""
        into = SGE(self.memory.buf, size, self.memory.lkey if lkey is None else lkey)
        self.pair.post_recv(RecvWR(num_sge=1, sg=[into]))

    def post(self, operation: str, size: int, *, immdt: int = 0, revoke: int = 0, qpn: int = 0, **at: int) -> None:
        """Post ``operation``, an IBV_WR_ name without its prefix; ``at`` may have va, rkey, operand and swap."""
        request = SendWR(
            opcode=getattr(enums, f"IBV_WR_{operation}"),
            num_sge=1,
            sg=[SGE(self.memory.buf, size, self.memory.lkey)],
            send_flags=enums.IBV_SEND_SIGNALED,
            imm_data=revoke or socket.htonl(immdt),  # one place for both, in different orders of octets
        )
        if operation.startswith("RDMA"):
            request.set_wr_rdma(at["rkey"], at["va"])
        elif operation.startswith("ATOMIC"):
            request.set_wr_atomic(at["rkey"], at["va"], at["operand"], at.get("swap", 0))
        elif self.wanted["transport"] == "UD":
            request.set_wr_ud(self.peer, qpn, QKEY)
        self.pair.post_send(request)

    def post_placement(self, operation: str, size: int, rkey: int, va: int) -> None:
        """Post FLUSH_RANGE or FLUSH_MR, for global visibility, or ATOMIC_WRITE, of the memory's own first octets.

        They exist only in the newer way to post (ibv_wr_post(3)).
        """
        self.pair.wr_start()
        self.pair.wr_flags = enums.IBV_SEND_SIGNALED
        if operation == "ATOMIC_WRITE":
            self.pair.wr_atomic_write(rkey, va, self.memory.read(size, 0))
        else:
            self.pair.wr_flush(rkey, va, size, enums.IBV_FLUSH_GLOBAL, getattr(enums, f"IBV_{operation}"))
        self.pair.wr_complete()

    def bind(self) -> int:
        """Open a window onto all of the memory; its key, which the peer may revoke."""
        window = MW(self.domain, enums.IBV_MW_TYPE_2)
        self.windows.append(window)
        request = SendWR(opcode=enums.IBV_WR_BIND_MW, num_sge=0, send_flags=enums.IBV_SEND_SIGNALED)
        request.set_bind_wr(window, MWBindInfo(self.memory, self.memory.buf, SIZE, enums.IBV_ACCESS_REMOTE_WRITE))
        self.pair.post_send(request)
        bound = self.completion()
        assert bound is not None
        assert bound["status"] == enums.IBV_WC_SUCCESS
        return int(request.rkey)

    def completion(self) -> dict[str, int] | None:
        """The next completed request, waited for a while, or null."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            count, found = self.completions.poll()
            if count:
                (done,) = found
                facts = {"status": done.status, "size": done.byte_len, "src_qp": done.src_qp}
                return facts | {"immdt": socket.ntohl(done.imm_data)}
            time.sleep(0.01)
        return None


def answer(pairs: dict[int, Live], pair: int, do: str, arguments: dict[str, Any]) -> Any:
    """Do what a line asks for."""
    if do == "create":
        live = pairs[pair] = Live(arguments)
        return {"qpn": live.pair.qp_num, "va": live.memory.buf, "rkey": live.memory.rkey}
    if do == "close":
        pairs[pair].context.close()
        del pairs[pair]
        return None
    return getattr(pairs[pair], do)(**arguments)


def main() -> None:
    pairs: dict[int, Live] = {}
    for line in sys.stdin:
        arguments = json.loads(line)
        try:
            said = answer(pairs, arguments.pop("pair"), arguments.pop("do"), arguments)
        except Exception:  # noqa: BLE001 - whoever asked is told, and others go on
            said = {"failure": traceback.format_exc()}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
