"""Frames survive any cut, and octets that are none are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.vm.calls.frames import CallFrame, CallFrameKind, Decoder

FRAMES = st.builds(CallFrame, st.integers(0, 2**32 - 1), st.sampled_from(CallFrameKind), st.binary(max_size=100))


@given(st.lists(FRAMES), st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[CallFrame], piece: int) -> None:
    octets = b"".join(frame.encode() for frame in frames)
    decoder = Decoder()
    pieces = [octets[at : at + piece] for at in range(0, len(octets), piece)]
    assert [frame for part in pieces for frame in decoder.feed(part)] == frames


@pytest.mark.parametrize("octets", [b"\xff" * 9, b"\0\0\0\x07\x63\0\0\0\0"], ids=["too long", "unknown kind"])
def test_what_is_no_frame_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match=r"octets|not a valid CallFrameKind"):
        list(Decoder().feed(octets))


def test_half_a_frame_can_be_forgotten() -> None:
    decoder, frame = Decoder(), CallFrame(7, CallFrameKind.INPUT, b"x" * 10)
    assert not list(decoder.feed(frame.encode()[:12]))
    decoder.reset()
    assert list(decoder.feed(frame.encode())) == [frame]
