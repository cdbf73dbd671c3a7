"""The VM: a small Debian guest with the kernel that RDMA in namespaces needs.

Start at ``host.vm_lifecycle`` (start and stop), ``image.image_build`` (build) and ``calls.call`` (run a command)::

    host:   image/ -> host/ (QEMU, boot, state) -> calls/ ===== virtio-serial ===== guest/ (agent, sessions)
                         checkpoints/ (save and resume)
"""
