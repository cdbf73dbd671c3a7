"""The argument lists of the programs of a VM: no test here starts one."""

import base64
import errno
import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.markers import InvalidMarker

from lab.vm.host.qemu import Accel, Guest, Share, Time, guest_argv, probe_argv
from lab.vm.image import debian
from lab.vm.image.arch import ARCHES
from lab.vm.image.recipe import Image, Recipe


def after(argv: list[str], option: str) -> list[str]:
    """Every value given to ``option``."""
    return [value for word, value in itertools.pairwise(argv) if word == option]


def test_guest_has_no_network_and_its_doors_are_sockets_of_its_own_folder(guest: Guest) -> None:
    argv = guest_argv(guest)
    assert not [word for word in argv if "netdev" in word or "virtio-net" in word or "hostfwd" in word]
    sockets = [*after(argv, "-chardev"), *after(argv, "-qmp")]
    assert [word.split(",")[2 if word.startswith("socket") else 0] for word in sockets] == [
        "path=/run/vm/call-0",
        "path=/run/vm/call-1",
        "unix:/run/vm/monitor",
    ]


def test_qemu_is_in_its_sandbox(guest: Guest, image: Image) -> None:
    """Seccomp, as far as -daemonize lives with it."""
    for argv in (guest_argv(guest), probe_argv(guest.arch, image, Accel.KVM)):
        assert after(argv, "-sandbox") == ["on,obsolete=deny,resourcecontrol=deny"]


@pytest.mark.parametrize(
    ("told", "option", "value"),
    [
        ("-run-with [async-teardown=on|off]\n-runas user     change to user id user", "-runas", "1000:100"),
        ("-run-with [async-teardown=on|off][,chroot=dir][user=username|uid:gid]", "-run-with", "user=1000:100"),
    ],
    ids=("Debian 12", "Debian 13"),
)
def test_qemu_becomes_whom_the_folders_belong_to(
    guest: Guest, monkeypatch: pytest.MonkeyPatch, told: str, option: str, value: str
) -> None:
    monkeypatch.setattr("lab.vm.host.qemu._help", lambda _: told)
    assert option not in guest_argv(guest)
    assert after(guest_argv(replace(guest, user=(1000, 100))), option) == [value]


def test_what_a_guest_makes_is_plain_files_where_the_file_system_can_say_what_it_meant(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(code: int) -> None:
        def getxattr(*_: object) -> bytes:
            raise OSError(code, "no")

        monkeypatch.setattr(os, "getxattr", getxattr)

    def model() -> str:
        (backend,) = after(guest_argv(guest), "-fsdev")
        return backend.partition("security_model=")[2].removesuffix(",readonly=on")

    refuses(errno.ENODATA)
    assert model() == "mapped-xattr,fmode=0640,dmode=0750,multidevs=remap"
    refuses(errno.ENOTSUP)
    assert model() == "none,multidevs=remap"


def test_guest_never_writes_to_the_image(guest: Guest) -> None:
    (disk,) = after(guest_argv(guest), "-drive")
    assert "snapshot=on" in disk.split(",")


@pytest.mark.parametrize(("accel", "words"), [(Accel.KVM, "kvm"), (Accel.TCG, "tcg,thread=multi")])
def test_accelerator(guest: Guest, accel: Accel, words: str) -> None:
    assert after(guest_argv(replace(guest, accel=accel)), "-accel") == [words]


def test_an_emulated_guest_starts_on_one_cpu_and_is_told_its_clock(guest: Guest, arm_guest: Guest) -> None:
    kinds = ("norand", "init", "maxcpus", "tsc")

    def words(guest: Guest) -> list[str]:
        return [word for word in after(guest_argv(guest), "-append")[0].split() if word.startswith(kinds)]

    assert words(guest) == ["norandmaps", "init_on_alloc=0", "maxcpus=1", "tsc_early_khz=2596130", "tsc=reliable"]
    assert words(arm_guest) == words(replace(guest, tsc_khz=None)) == ["norandmaps", "init_on_alloc=0", "maxcpus=1"]
    assert words(replace(guest, accel=Accel.KVM)) == []


def test_virtual_time_is_one_thread_that_counts_instructions(guest: Guest) -> None:
    argv = guest_argv(replace(guest, time=Time.VIRTUAL, cpus=1, tsc_khz=1_000_000))
    assert after(argv, "-accel") == ["tcg,thread=single"]
    assert after(argv, "-icount") == ["shift=0,sleep=on"]
    assert after(argv, "-rtc") == ["clock=vm"]
    assert {"tsc_early_khz=1000000", "tsc=reliable", "rocelab.time=virtual"} < set(after(argv, "-append")[0].split())
    assert "maxcpus=1" not in after(argv, "-append")[0]
    assert not {"-icount", "-rtc"} & set(guest_argv(guest))


def test_an_emulated_guest_sees_neither_avx_nor_fast_strings(guest: Guest, arm_guest: Guest) -> None:
    model, *without = after(guest_argv(replace(guest, accel=Accel.TCG)), "-cpu")[0].split(",")
    assert model == "max"
    assert {"avx=off", "avx2=off", "erms=off", "fsrm=off"} <= set(without)
    assert after(guest_argv(replace(guest, accel=Accel.KVM)), "-cpu") == ["max"]
    assert after(guest_argv(replace(arm_guest, accel=Accel.TCG)), "-cpu") == ["max"]


def test_architectures_differ_in_program_machine_and_console(guest: Guest, arm_guest: Guest) -> None:
    intel, arm = guest_argv(guest), guest_argv(arm_guest)
    assert (intel[0], arm[0]) == ("qemu-system-x86_64", "qemu-system-aarch64")
    assert after(intel, "-machine") == ["q35"]
    assert after(arm, "-machine") == ["virt,gic-version=max"]
    assert after(intel, "-append")[0].startswith("console=ttyS0 ")
    assert after(arm, "-append")[0].startswith("console=ttyAMA0 ")


@pytest.mark.parametrize("path", ["/home/ann/rocelab", "/home/ann/my labs/a,b=c", "/srv/é"])
def test_shared_paths_arrive_whatever_they_hold(guest: Guest, path: str) -> None:
    argv = guest_argv(replace(guest, shares=(Share("checkout", Path(path)),)))
    (word,) = [word for word in after(argv, "-append")[0].split() if word.startswith("rocelab.checkout=")]
    assert base64.b64decode(word.partition("=")[2]).decode() == path
    (backend,) = after(argv, "-fsdev")
    assert f"path={path.replace(',', ',,')},security" in backend


def test_qemu_writes_only_to_what_is_shared_to_be_written(guest: Guest) -> None:
    shares = (Share("checkout", Path("/a")), Share("recordings", Path("/a/recordings"), writable=True))
    backends = after(guest_argv(replace(guest, shares=shares)), "-fsdev")
    assert [backend.endswith(",readonly=on") for backend in backends] == [True, False]


def test_probe_has_neither_disk_nor_network(image: Image) -> None:
    argv = probe_argv(ARCHES["x86_64"], image, Accel.KVM)
    assert "rocelab.probe" in after(argv, "-append")[0].split()
    assert not {"-drive", "-netdev", "-daemonize"} & set(argv)


def test_bootstrap_names_no_mirror_of_its_own(recipe: Recipe) -> None:
    argv = debian.bootstrap(recipe, Path("/s t"), Path("/tree"), mirror=None, apt_options=[])
    assert argv[-2:] == ["trixie", "/tree"]
    assert not [word for word in argv if "://" in word]
    assert "--customize-hook=sync-in '/s t' /" in argv
    assert f"--keyring={debian.KEYRING}" in argv


def test_bootstrap_takes_the_mirror_and_the_proxy_of_the_host(recipe: Recipe) -> None:
    argv = debian.bootstrap(
        recipe,
        Path("/stage"),
        Path("/tree"),
        mirror="http://mirror.example/debian",
        apt_options=["Acquire::Retries 3"],
    )
    assert argv[-1] == "http://mirror.example/debian"
    assert "--aptopt=Acquire::Retries 3" in argv
    assert "--include=frr,iproute2,linux-image-amd64" in argv


def test_a_plain_user_gets_a_user_namespace_and_root_does_not() -> None:
    assert "--map-auto" in debian.in_namespaces(["true"], root=False)
    assert "--map-auto" not in debian.in_namespaces(["true"], root=True)


def test_pip_takes_only_wheels_with_known_hashes_for_the_guest() -> None:
    argv = debian.pip_install(ARCHES["x86_64"], Path("/lock"), Path("/target"), "/usr/bin/python3")
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps"} <= set(argv)
    assert after(argv, "--python-version") == ["3.13"]
    assert "manylinux2014_x86_64" in after(argv, "--platform")


LOCK = """\
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:01
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:02 \\
    --hash=sha256:03
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:04 \\
    --hash=sha256:05
fast==1 ; platform_machine == 'aarch64' \\
    --hash=sha256:06
rich==15.0.0 \\
    --hash=sha256:07
"""


def test_conditions_of_the_lock_are_judged_for_the_guest() -> None:
    rich = "rich==15.0.0 \\\n    --hash=sha256:07\n"
    numpy = "numpy==2.5.5 \\\n    --hash=sha256:04 \\\n    --hash=sha256:05\n"
    assert debian.lock_for_guest(LOCK, ARCHES["x86_64"]).replace("  \\", " \\") == numpy + rich
    assert "fast==1" in debian.lock_for_guest(LOCK, ARCHES["aarch64"])


def test_a_condition_nobody_can_read_is_an_error() -> None:
    with pytest.raises(InvalidMarker):
        debian.lock_for_guest("numpy==1 ; python_is_nice \\\n    --hash=sha256:01\n", ARCHES["x86_64"])


def test_platforms_follow_the_architecture_and_its_glibc() -> None:
    platforms = ARCHES["aarch64"].pip_platforms
    assert platforms[0] == "manylinux_2_41_aarch64"
    assert "manylinux_2_17_aarch64" in platforms
    assert "manylinux_2_42_aarch64" not in platforms


UPDATED = "Debian\tbookworm\tmain\thttp://mirror.example/deb/\n"
CONFIGURED = "$(ORIGIN)\ttrixie\tmain\thttp://mirror.example/debian/\n"
FOREIGN = (
    "$(ORIGIN)\tnoble\tmain\thttp://mirror.example/ubuntu/\n"
    "Docker\tbookworm\tstable\thttp://vendor.example/linux/debian/\n"
    "$(ORIGIN)\tbookworm-security\tmain\thttp://mirror.example/debian-security/\n"
    "$(ORIGIN)\tstable\tmain\thttp://vendor.example/apt/\n"
)


@pytest.mark.parametrize(
    ("targets", "mirror"),
    [
        (FOREIGN + UPDATED, "http://mirror.example/deb/"),
        (FOREIGN + CONFIGURED, "http://mirror.example/debian/"),
        (FOREIGN, None),
        ("", None),
    ],
)
def test_mirror_is_the_hosts_debian_archive_or_none(targets: str, mirror: str | None) -> None:
    assert debian.pick_mirror(targets) == mirror


def test_apt_options_are_those_of_the_way_to_the_mirror() -> None:
    dump = (
        'APT "";\nAcquire::http "";\nAcquire::http::Proxy "http://proxy.example:3142";\nAcquire::Languages "none";\n'
    )
    assert debian.pick_apt_options(dump) == ['Acquire::http::Proxy "http://proxy.example:3142";']
