"""The host's side of the VM: QEMU's arguments, boot, monitor, state, isolation and teardown."""
