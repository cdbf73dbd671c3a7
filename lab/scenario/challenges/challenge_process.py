"""The challenge process: runs a scenario up to the point where its fault is active, and waits.

SIGUSR1 makes it continue with the fix, to the end. SIGTERM makes it heal everything and exit. If it is killed, its
faults count as abandoned, ``port_restore.mend`` restores settings, and ``challenge_record.mend`` ends its programs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from lab.errors import ExpectedError, Interrupted, OperationFailed, UsageError
from lab.faults.ledger import Holder
from lab.kernel.process import cgroup, process
from lab.kernel.process.signals import received
from lab.scenario.challenges.challenge_record import MARK, Challenge, ChallengeInfo
from lab.scenario.stage import Stage
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.sample.child_process import ChildProcess, Control, failure, lasting_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lab.backends.backend import Fabric
    from lab.kernel.process.process import Completed
    from lab.scenario.api import Parameters, Scenario
    from lab.telemetry.store.recording_folder import RecordKind

GO_ON: Final = signal.SIGUSR1
_BEGINNING: Final = 600.0
"""The maximum seconds until the challenge is ready; a scenario's phases take about ten."""
_ENDING: Final = 300.0
"""The maximum seconds until the process has ended after a request."""
_LOOK: Final = 1.0
"""Seconds between two checks whether the fabric still exists."""
_ROUND: Final = 0.1
"""Seconds from one repetition of a workload to the next, at least: one that ends at once must not use a whole CPU."""


class Unrecorded:
    """A recorder that discards everything, for the time when nothing is recorded."""

    def phase(self, name: str) -> int:  # noqa: ARG002
        """Discard a phase."""
        return 0

    def note(self, text: str, **data: Any) -> int:  # noqa: ARG002
        """Discard a note."""
        return 0

    def command(self, node: str, argv: Sequence[str], result: Completed, *, began: int) -> None:
        """Discard a command."""

    def record(self, record_kind: RecordKind, /, *, ns: int | None = None, **data: Any) -> int:  # noqa: ARG002
        """Discard a record."""
        return ns or 0


@dataclass(kw_only=True)
class WaitingStage(Stage):
    """A stage that waits at ``linger`` until it is requested to continue."""

    recording: Recorder
    challenge: Challenge
    stands: Callable[[], None]
    """Called when the challenge is ready."""
    stood: bool = False
    _asked: int | None = field(default=None)

    def linger(self, again: Callable[[], None] | None = None) -> None:
        """Wait for a signal. Raises Interrupted on SIGTERM, UsageError if the fabric is gone."""
        if self.stood:
            return
        with received([signal.SIGTERM, GO_ON]) as asked:
            self.recording.rest()
            self.recorder, self._asked, self.stood = Unrecorded(), asked, True
            try:
                self.stands()
                pause = 0.0 if again else _LOOK
                while not process.readable(asked, pause):
                    if not self.fabric.state.ready:
                        raise UsageError(f"fabric {self.fabric.name} was taken down", "rocelab scenario break")
                    if again:
                        began = time.monotonic()
                        again()
                        pause = max(0.0, began + _ROUND - time.monotonic())
                said = os.read(asked, 1)[0]
            finally:
                self.recorder, self._asked = self.recording, None
                self.recording.wake()
        if said == signal.SIGTERM:
            raise Interrupted("ended by SIGTERM")

    def hold(self, seconds: float) -> None:
        """Wait for some seconds; at ``linger``, only until a signal arrives."""
        if self._asked is None:
            super().hold(seconds)
        else:
            process.readable(self._asked, seconds)


@contextlib.contextmanager
def challenging(fabric: Fabric, scenario: Scenario[Any], folder: Path, seed: int, began: float) -> Iterator[None]:
    """Start a process that runs a scenario; the block begins when the challenge is ready. Its errors are raised here.

    The challenge goes on after the block. If the block fails or is interrupted, the process heals everything.
    """
    challenge = Challenge(fabric.state)

    def work(control: Control) -> None:
        signal.signal(signal.SIGTERM, _leave)
        signal.signal(GO_ON, signal.SIG_IGN)  # except at linger
        os.environ[MARK] = fabric.state.owner
        with cgroup.opened(fabric.state.groups / "@challenge") as group:
            if group is not None:
                os.write(group, b"0")
        challenge.begin(
            ChallengeInfo(
                scenario=scenario.name,
                folder=str(folder),
                seed=seed,
                began=began,
                holder=Holder.current(),
                at=scenario.at,
            )
        )
        _attend(fabric, scenario, seed, challenge, lambda: control.say({"stands": True}))

    def end(attendant: ChildProcess) -> None:
        process.dismiss(attendant.pid, meant=lambda _: True, timeout=_ENDING)

    try:
        challenge.prepare()
        with lasting_child(f"the challenge of {fabric.name}", work, end) as attendant:
            said = attendant.ask({"do": "begin"}, timeout=_BEGINNING)
            if "error" in said:
                raise failure(said)
            yield
    except BaseException:
        challenge.forget()
        raise


def _leave(number: int, _frame: object) -> NoReturn:
    raise Interrupted(f"ended by {signal.Signals(number).name}")


def _attend(
    fabric: Fabric, scenario: Scenario[Any], seed: int, challenge: Challenge, stands: Callable[[], None]
) -> None:
    """Run the scenario, and record how it ended if the challenge's folder still exists."""
    parameters: Parameters = scenario.parameters()
    asked = {
        "scenario": scenario.name,
        "at": scenario.at,
        "seed": seed,
        "params": parameters.model_dump(mode="json", by_alias=True),
    }
    why = "it was killed"
    try:
        with Recorder.begin(challenge.recording, fabric, parameters=asked) as recorder:
            stage = WaitingStage(
                fabric=fabric,
                recorder=recorder,
                seed=seed,
                tell=lambda _: None,
                recording=recorder,
                challenge=challenge,
                stands=stands,
            )
            try:
                scenario.run(stage, parameters)
                if not stage.stood:
                    raise OperationFailed(
                        f"scenario {scenario.name} lingers nowhere", "say stage.linger() in its run"
                    )
            finally:
                stage.restore()
        why = ""
    except ExpectedError as error:
        why = str(error)
        raise
    finally:
        if challenge.state.challenge.is_dir():
            challenge.end(why)


def go_on(about: ChallengeInfo) -> None:
    """Make the process continue, and wait for its end. Raises OperationFailed if it does not end."""
    process.dismiss(about.holder.pid, meant=lambda _: about.holder.lives, timeout=_ENDING, number=GO_ON)
