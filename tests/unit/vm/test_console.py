"""A dead guest's console: the cause is shown, from recordings of the real thing, and not the noise around it."""

from pathlib import Path

import pytest

from lab.vm.host.console import fault, last_words

OOPS = (Path(__file__).parent / "data/oops-int3-x86_64.txt").read_text(encoding="utf-8")
"""QEMU 7.2.22 with -accel tcg,thread=multi and 8 CPUs, Debian's Linux 7.3.4, starting."""


def test_an_oops_is_told_from_its_first_line_to_the_panic() -> None:
    assert last_words("Booting\n" * 30 + OOPS).splitlines() == [
        "[    4.426501] Oops: int3: 0000 [#1] SMP NOPTI",
        "[    4.427529] CPU: 2 UID: 0 PID: 1 Comm: swapper/0 Not tainted 7.3.4+deb13-amd64 #1 PREEMPT(lazy)",
        "[    4.435150] RIP: 0010:sched_clock_cpu+0x9/0x1f0",
        "[    4.462440] Call Trace:",
        "[    4.463422]  ttwu_queue_wakelist+0xf0/0x1b0",
        "[    4.463602]  try_to_wake_up+0x261/0x790",
        "[    4.463827]  devtmpfs_create_node+0x10a/0x150",
        "[    4.463939]  device_add+0x63f/0x850",
        "[    4.464030]  device_create_groups_vargs+0xce/0xf0",
        "[    4.471534] Kernel panic - not syncing: Fatal exception in interrupt",
    ]


def test_an_arm_oops_has_other_words() -> None:
    said = """\
[    1.200000] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010
[    1.200100] Mem abort info:
[    1.200200] Internal error: Oops: 0000000096000004 [#1] SMP
[    1.200300] CPU: 0 UID: 0 PID: 1 Comm: swapper/0 Not tainted 7.2.12+deb13-arm64 #1
[    1.200400] pc : virtio_init+0x10/0x20
[    1.200500] Call trace:
[    1.200600]  virtio_init+0x10/0x20 (P)
[    1.200700] ---[ end trace 0000000000000000 ]---
[    1.200800] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b
"""
    shown = last_words(said)
    assert [word for word in ("NULL pointer", "CPU: 0", "pc : virtio_init", "Attempted") if word not in shown] == []
    assert "Mem abort" not in shown


@pytest.mark.parametrize(
    ("console", "shown", "hidden"),
    [
        ("".join(f"line {number}\n" for number in range(20)), "line 19", "line 5"),
        ("Booting\nKernel panic - no init\n" + "noise\n" * 20, "Kernel panic - no init", "noise"),
        ("", "its console is empty", "line"),
    ],
)
def test_without_an_oops_a_panic_or_the_end_is_shown(console: str, shown: str, hidden: str) -> None:
    assert shown in last_words(console)
    assert hidden not in last_words(console)


def test_a_guest_that_ended_without_a_word_has_no_fault() -> None:
    assert fault("rocelab: ready after 5.1 s\n") == ""


def test_an_oops_cut_short_is_shown_as_far_as_it_goes() -> None:
    for cut in range(len(OOPS)):
        assert last_words(OOPS[:cut])
