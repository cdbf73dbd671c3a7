"""The capabilities of this machine, where each feature works, and the command that provides a missing one.

Start at ``capabilities``, the one table::

    capabilities (probed) -> features (here, in the VM, not at all) ; remedies (this distribution's command)
"""
