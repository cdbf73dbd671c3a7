"""Compile a filter to classic BPF. The program rejects only packets that the filter rejects.

The program first walks the headers (``kernel_walk``) and then decides. If the walk is unsure, or only ``match``
supports a condition, it accepts the packet and leaves the decision to ``match``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.wire import icrc
from lab.wire.filter import assembler as asm
from lab.wire.filter.assembler import Assembler, Label
from lab.wire.filter.expression import (
    AddressSide,
    All,
    Any,
    Expression,
    FilterField,
    HostCondition,
    Not,
    Within,
    quick,
)
from lab.wire.filter.kernel_walk import CONTROL, INNER, NOTHING, OUTER, VNI, KernelWalk
from lab.wire.filter.match import ANSWERS
from lab.wire.header_fields import (
    DSCP,
    ECN,
    AethFields,
    Bits,
    BthFields,
    EthernetFields,
    Ipv4Fields,
    Ipv6Fields,
    SyndromeFields,
    UdpFields,
)
from lab.wire.udp_ports import IPV4_TYPE, ROCEV2_PORT, UDP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lab.wire.filter.assembler import Instruction
    from lab.wire.filter.expression import Address
    from lab.wire.filter.kernel_walk import WalkMemory

NEEDED: Final = 512
"""Bytes of a packet that ``match`` needs after the program: the headers of the deepest tunnels."""

_IP_AT: Final = EthernetFields.SIZE
_UDP_AT: Final = _IP_AT + Ipv4Fields.SIZE
_PLAIN: Final = _UDP_AT + UdpFields.LENGTH.end
"""Bytes up to and including UDP's length, the last field that is read."""
_ANSWERED: Final = UdpFields.SIZE + BthFields.SIZE + AethFields.SIZE + icrc.SIZE
_ADDRESSES: Final = {4: (Ipv4Fields.SRC, Ipv4Fields.DST), 6: (Ipv6Fields.SRC, Ipv6Fields.DST)}
_WORD: Final = 4


def decided(
    memory: memoryview, start: NDArray[np.int64], captured: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return the packets, of ``length`` bytes, for which programs of ``quick`` filters decide exactly.

    Packets begin in ``memory`` at ``start``. The result is true for RoCEv2 in plain IPv4, which is most traffic. For
    these, the slower ``match`` is not needed.
    """
    import numpy as np  # noqa: PLC0415 - programs are made without it

    octets, found = np.frombuffer(memory, np.uint8), captured >= _PLAIN
    at = start[found]

    def read(bits: Bits, header: int = 0) -> NDArray[np.int64]:
        return bits.gather(octets, at + header)

    total, size = read(Ipv4Fields.LENGTH, _IP_AT), read(UdpFields.LENGTH, _UDP_AT)
    found[found] = (
        (read(EthernetFields.ETHERTYPE) == IPV4_TYPE) & (read(Ipv4Fields.VERSION_IHL, _IP_AT) == Ipv4Fields.PLAIN)
        & (read(Ipv4Fields.PROTOCOL, _IP_AT) == UDP) & (read(UdpFields.DPORT, _UDP_AT) == ROCEV2_PORT)
        & (read(Ipv4Fields.FRAGMENT, _IP_AT) == 0) & (size >= _ANSWERED) & (size <= total - Ipv4Fields.SIZE)
        & (total + _IP_AT <= length[found])
    )  # fmt: skip
    return found


def kernel_program(expression: Expression, keep: int) -> tuple[Instruction, ...]:
    """Return instructions for SO_ATTACH_FILTER that keep ``keep`` bytes of packets that may match.

    UsageError if the program is too long for the kernel.
    """
    return _Compiler(keep).compile(expression)


class _Compiler:
    def __init__(self, keep: int) -> None:
        self._asm = Assembler()
        self._keep = keep
        self._accept = Label()
        self._walk = KernelWalk(self._asm, unsure=self._accept)

    def compile(self, expression: Expression) -> tuple[Instruction, ...]:
        reject, decide = Label(), Label()
        self._walk.write(decide)
        self._asm.place(decide)
        self._decide(expression, self._accept, reject)
        self._asm.place(reject)
        self._asm.add(asm.RETURN, 0)
        self._asm.place(self._accept)
        self._asm.add(asm.RETURN, self._keep)
        return self._asm.finish()

    def _decide(self, expression: Expression, yes: Label, no: Label, *, unknown: bool = True) -> None:
        """Emit code that jumps to ``yes`` or ``no``; ``unknown``: what only ``match`` supports is a yes."""
        match expression:
            case Not(term):
                self._decide(term, no, yes, unknown=not unknown)
            case All(terms):
                for term in terms[:-1]:
                    following = Label()
                    self._decide(term, following, no, unknown=unknown)
                    self._asm.place(following)
                self._decide(terms[-1], yes, no, unknown=unknown)
            case Any(terms):
                for term in terms[:-1]:
                    following = Label()
                    self._decide(term, yes, following, unknown=unknown)
                    self._asm.place(following)
                self._decide(terms[-1], yes, no, unknown=unknown)
            case _ if quick(expression):
                self._test(expression, yes)
                self._asm.go(no)
            case _:
                self._asm.go(yes if unknown else no)

    def _test(self, condition: Expression, yes: Label) -> None:
        """Emit code that jumps to ``yes``, or continues."""
        match condition:
            case HostCondition(side, addresses):
                for layer in (OUTER, INNER):
                    self._host(side, addresses, layer, yes)
            case Within(field, ranges):
                for layer in (OUTER,) if field in {FilterField.VNI, FilterField.CONTROL} else (OUTER, INNER):
                    self._within(field, ranges, layer, yes)

    def _within(self, field: FilterField, ranges: tuple[tuple[int, int], ...], layer: WalkMemory, yes: Label) -> None:
        absent = Label()
        self._value(field, layer, absent)
        for first, last in ranges:
            following = Label()
            self._asm.jump(asm.JUMP_NOT_LESS, first, None, following)
            self._asm.jump(asm.JUMP_GREATER, last, None, yes)
            self._asm.place(following)
        self._asm.place(absent)

    def _value(self, field: FilterField, layer: WalkMemory, absent: Label) -> None:
        """Emit code that loads the field's value into A, or jumps to ``absent``."""
        slots = {
            FilterField.VNI: VNI,
            FilterField.CONTROL: CONTROL,
            FilterField.DSCP: layer.tos,
            FilterField.ECN: layer.tos,
        }
        slot = slots.get(field, layer.bth)
        missing = 0 if slot in {CONTROL, layer.bth} else NOTHING
        self._asm.add(asm.LD_MEMORY, slot)
        self._asm.jump(asm.JUMP_EQUAL, missing, absent, None)
        if slot == layer.bth:
            self._asm.add(asm.A_TO_X)
        match field:
            case FilterField.QPN:
                self._asm.load(BthFields.DESTQP)
            case FilterField.PSN:
                self._asm.load(BthFields.PSN)
            case FilterField.OPCODE:
                self._asm.load(BthFields.OPCODE)
            case FilterField.ANSWER:
                self._answer(layer, absent)
            case FilterField.DSCP:
                self._asm.add(asm.SHIFT_RIGHT, DSCP.shift)
            case FilterField.ECN:
                self._asm.add(asm.AND, ECN.mask)
            case FilterField.VNI | FilterField.CONTROL:
                pass

    def _answer(self, layer: WalkMemory, absent: Label) -> None:
        """Emit code that loads the kind of the syndrome; the AETH must be between BTH and ICRC."""
        answer = Label()
        self._asm.load(BthFields.OPCODE)
        self._asm.jump(asm.JUMP_EQUAL, ANSWERS[0], answer, None)
        self._asm.jump(asm.JUMP_EQUAL, ANSWERS[1], None, absent)
        self._asm.place(answer)
        self._walk.need(BthFields.SIZE + AethFields.SIZE + icrc.SIZE, layer.udp_end)
        self._asm.load(AethFields.SYNDROME, BthFields.SIZE)
        self._asm.add(asm.SHIFT_RIGHT, SyndromeFields.KIND.shift)
        self._asm.add(asm.AND, SyndromeFields.KIND.mask)

    def _host(self, side: AddressSide, addresses: tuple[Address, ...], layer: WalkMemory, yes: Label) -> None:
        for address in addresses:
            source, destination = _ADDRESSES[address.version]
            if side is not AddressSide.DESTINATION:
                self._address(address, source, layer, yes)
            if side is not AddressSide.SOURCE:
                self._address(address, destination, layer, yes)

    def _address(self, address: Address, bits: Bits, layer: WalkMemory, yes: Label) -> None:
        other = Label()
        self._asm.add(asm.LD_MEMORY, layer.version)
        self._asm.jump(asm.JUMP_EQUAL, address.version, None, other)
        self._asm.add(asm.LDX_MEMORY, layer.ip)
        octets = address.packed
        for place in range(0, len(octets), _WORD):
            self._asm.load(Bits(bits.at + place, _WORD))
            last = place + _WORD == len(octets)
            word = int.from_bytes(octets[place : place + _WORD])
            self._asm.jump(asm.JUMP_EQUAL, word, yes if last else None, other)
        self._asm.place(other)
