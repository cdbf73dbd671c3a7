"""Calls into the guest: frames on a virtio-serial port, the files of a command, and its exit code."""
