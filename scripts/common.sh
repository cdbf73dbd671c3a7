# What the scripts beside this file share. Sourced, in bash, from the checkout's root.
# shellcheck shell=bash

PATH=$PWD/.venv/bin:$PATH
export PATH

# The comment at the beginning of the script is its help, which is printed before the script does anything.
print_help() {
    sed -n '2,/^set /s/^# \{0,1\}//p' "scripts/${0##*/}"
}
case "${1-}" in
    -h | --help)
        print_help
        exit 0
        ;;
esac

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
            printf 'the VM%s that is up shares another checkout. Start one of your own: ROCELAB_VM_NAME=mine %s\n' \
                "${ROCELAB_VM_NAME:+ $ROCELAB_VM_NAME}" "$0" >&2
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
