"""Probes in real namespaces: they find the neighbours, and leave nothing."""

import pytest

from lab.kernel.bpf import probe
from lab.kernel.bpf.probe import ProbeFinding
from tests.fabric import snapshot

pytestmark = pytest.mark.fabric


def test_trials_leave_nothing_behind() -> None:
    before = snapshot.take()
    assert probe.namespaces() == ProbeFinding(True)
    assert probe.device("veth") == ProbeFinding(True)
    assert probe.has_qdisc("pfifo")
    assert not probe.has_qdisc("no-such-qdisc")
    assert probe.device("no-such-kind").present is False
    probe.hash_seed()
    probe.rxe()
    assert before.differences(snapshot.take()) == []
