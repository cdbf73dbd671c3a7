"""A program with one RC queue pair, whose peer is whoever crafts its packets; the system's Python runs it (pyverbs).

It takes one JSON document as its argument, prints one when it is ready to send, and then answers each line:

    memory      the first octets of its buffer, in hexadecimal
    write SIZE  post an RDMA WRITE of that many octets, to an address that only the peer could judge
    completion  the status of a completed request, waiting a while, or null
    state       the state of the queue pair
"""

from __future__ import annotations

import json
import sys
import time
from ipaddress import IPv6Address
from typing import Any

from pyverbs import enums
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

SIZE = 4096
SHOWN = 32
PATIENCE = 10.0


class Live:
    """The queue pair in RTS, its memory and its completion queue."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        rights = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE | enums.IBV_ACCESS_REMOTE_READ
        rights |= enums.IBV_ACCESS_REMOTE_ATOMIC
        self.context = Context(name=wanted["device"])
        self.domain = PD(self.context)
        self.memory = MR(self.domain, SIZE, rights)
        self.memory.write("." * SIZE, SIZE)
        self.completions = CQ(self.context, 16)
        room = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=1, max_recv_sge=1)
        queues = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.completions, rcq=self.completions, cap=room)
        self.pair = QP(self.domain, queues)
        self._connect(wanted, rights)

    def _connect(self, wanted: dict[str, Any], rights: int) -> None:
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = rights
        self.pair.to_init(attributes)
        peer = GID(IPv6Address(f"::ffff:{wanted['peer']}").packed.hex(":", 2))
        route = GlobalRoute(dgid=peer, sgid_index=wanted["gid_index"], hop_limit=64)
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        attributes.path_mtu = enums.IBV_MTU_1024
        attributes.dest_qp_num = wanted["peer_qpn"]
        attributes.rq_psn = wanted["epsn"]
        attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = 12
        self.pair.to_rtr(attributes)
        attributes.sq_psn = wanted["psn"]
        attributes.timeout = 0  # never: what is sent again was asked for
        attributes.retry_cnt = 3
        attributes.rnr_retry = 3
        attributes.max_rd_atomic = 1
        self.pair.to_rts(attributes)

    def answer(self, command: str) -> Any:
        if command == "memory":
            return self.memory.read(SHOWN, 0).hex()
        if command == "state":
            return int(self.pair.query(enums.IBV_QP_STATE)[0].qp_state)
        if command == "completion":
            return self._completion()
        data = SGE(self.memory.buf, int(command.removeprefix("write ")), self.memory.lkey)
        request = SendWR(opcode=enums.IBV_WR_RDMA_WRITE, num_sge=1, sg=[data])
        request.set_wr_rdma(0x22, 0x1000)
        self.pair.post_send(request)
        return None

    def _completion(self) -> int | None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            count, found = self.completions.poll()
            if count:
                return int(found[0].status)
            time.sleep(0.01)
        return None


def main() -> None:
    live = Live(json.loads(sys.argv[1]))
    ready = {"qpn": live.pair.qp_num, "va": live.memory.buf, "rkey": live.memory.rkey}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        print(json.dumps(live.answer(line.strip())), flush=True)


if __name__ == "__main__":
    main()
