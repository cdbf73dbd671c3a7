# What the scripts beside this file share. Sourced, in bash, from the checkout's root.
# shellcheck shell=bash

PATH=$PWD/.venv/bin:$PATH
export PATH

# "${as_root[@]}" COMMAND...: run it as root, with this environment; as ourselves where there is no sudo.
as_root=()
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null; then
    as_root=(sudo -E env "PATH=$PATH")
fi

vm_is_up() {
    rocelab vm status --json | grep '"up": true' >/dev/null # not -q, which ends before rocelab has printed all
}

# remember_vm, then leave_vm at the end: a VM that was up stays up, one that came up since is taken down.
remember_vm() {
    vm_was_up=no
    if vm_is_up; then
        vm_was_up=yes
        if ! rocelab vm status --json | grep -F "\"$PWD\"" >/dev/null; then
            echo "the VM that is up shares another checkout; end it: rocelab vm down" >&2
            exit 4
        fi
    fi
}

leave_vm() {
    if [ "${vm_was_up-yes}" = no ] && vm_is_up; then
        rocelab vm down >/dev/null
    fi
}

# works_here FEATURE: whether rocelab doctor finds that this machine does it by itself.
works_here() {
    "${as_root[@]}" rocelab doctor --json | python -c '
import json, sys
works = {entry["feature"]: entry["place"] for entry in json.load(sys.stdin)["features"]}
sys.exit(works[sys.argv[1]] != "here")' "$1"
}
