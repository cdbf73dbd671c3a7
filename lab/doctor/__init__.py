"""What this machine can do for rocelab, where the rest would work, and the command that fixes each lack.

Start at ``capabilities``, the one table::

    capabilities (tried) -> features (here, in the VM, not at all) ; remedies (this distribution's command)
"""
