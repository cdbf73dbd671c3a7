"""Calls into the guest: frames on a virtio-serial port, files that go along, the exit code that comes back."""
