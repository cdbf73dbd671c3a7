"""Messages of every opcode, each with the headers that the specification puts after its BTH."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from lab.wire.craft.build import Path, RoceMessage
from lab.wire.headers import Aeth, AtomicEth, Deth, Feth, Reth
from lab.wire.opcodes import Extension, Opcode, extensions
from lab.wire.syndrome import Syndrome

IP4: Final = Path("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2")
IP6: Final = Path("02:00:00:00:00:01", "02:00:00:00:00:02", "fd00::1", "fd00::2")
VTEPS: Final = Path("02:00:00:00:00:11", "02:00:00:00:00:12", "10.252.0.1", "10.252.0.2", entropy=0xD00D)
VTEPS6: Final = Path("02:00:00:00:00:11", "02:00:00:00:00:12", "fd01::1", "fd01::2", entropy=0xD00D)

bits16 = st.integers(0, 2**16 - 1)
bits24 = st.integers(0, 2**24 - 1)
bits32 = st.integers(0, 2**32 - 1)
bits64 = st.integers(0, 2**64 - 1)
paths = st.sampled_from([IP4, IP6])
opcodes = st.sampled_from(Opcode)

_FIELDS: Final[dict[Extension, tuple[str, st.SearchStrategy[Any]]]] = {
    Extension.DETH: ("deth", st.builds(Deth, bits32, bits24)),
    Extension.FETH: ("feth", st.builds(Feth, st.integers(0, 3), st.integers(0, 15))),
    Extension.RETH: ("reth", st.builds(Reth, bits64, bits32, bits32)),
    Extension.ATOMIC_ETH: ("atomiceth", st.builds(AtomicEth, bits64, bits32, bits64, bits64)),
    Extension.AETH: ("aeth", st.builds(Aeth, st.builds(Syndrome.decode, st.integers(0, 0x7F)), bits24)),
    Extension.ATOMIC_ACK_ETH: ("origremdt", bits64),
    Extension.IMMDT: ("immdt", bits32),
    Extension.IETH: ("ieth", bits32),
}
HEADERS: Final = tuple(name for name, _ in _FIELDS.values())
"""Attributes of ``Message`` and ``Frame`` that hold an extension header."""


@st.composite
def messages(draw: st.DrawFn, wanted: st.SearchStrategy[Opcode] = opcodes) -> RoceMessage:
    """A message with random values in every field that its opcode has, and a payload of any length."""
    opcode = draw(wanted)
    headers = {_FIELDS[each][0]: draw(_FIELDS[each][1]) for each in extensions(opcode) if each in _FIELDS}
    return RoceMessage(
        opcode,
        destqp=draw(bits24),
        psn=draw(bits24),
        ackreq=draw(st.booleans()),
        solicited=draw(st.booleans()),
        migreq=draw(st.booleans()),
        fecn=draw(st.booleans()),
        becn=draw(st.booleans()),
        pkey=draw(bits16),
        payload=bytes(16) if opcode is Opcode.CNP else draw(st.binary(max_size=64)),
        **headers,
    )


WITHOUT_DATA: Final = {
    Opcode.RC_RDMA_READ_REQUEST,
    Opcode.RC_ACKNOWLEDGE,
    Opcode.RC_ATOMIC_ACKNOWLEDGE,
    Opcode.RC_CMPSWAP,
    Opcode.RC_FETCHADD,
    Opcode.RC_FLUSH,
}
"""Opcodes after whose headers no payload may come (IBA vol. 1 section 9.2, annex A19)."""


def crafted(opcode: Opcode) -> RoceMessage:
    """One message of ``opcode``, always the same, no two fields alike; where it has data, they need padding."""
    values: dict[Extension, Any] = {
        Extension.DETH: Deth(0x1111_1111, 0x222222),
        Extension.FETH: Feth(1, 2),
        Extension.RETH: Reth(0x3333_4444_5555_6666, 0x7777_7777, 0x888),
        Extension.ATOMIC_ETH: AtomicEth(0x3333_4444_5555_6666, 0x7777_7777, 0x99AA_BBCC, 0xDDEE_FF00),
        Extension.AETH: Aeth(Syndrome.decode(0x05), 0x123456),
        Extension.ATOMIC_ACK_ETH: 0x0123_4567_89AB_CDEF,
        Extension.IMMDT: 0xCAFE_F00D,
        Extension.IETH: 0xDEAD_BEEF,
    }
    headers = {_FIELDS[each][0]: values[each] for each in extensions(opcode) if each in values}
    payload = b"" if opcode in WITHOUT_DATA else bytes(16) if opcode is Opcode.CNP else b"odd!!"
    return RoceMessage(opcode, 0xABCDE, 0xFEDCB, ackreq=True, pkey=0x8001, payload=payload, **headers)
