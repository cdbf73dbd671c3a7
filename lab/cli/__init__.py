"""The command line: parse, call one function, render. No logic.

Start at ``command_registry``, which has one entry for each command. A command's module is named after it::

    app -> command_groups (imports the command) -> command_line (as parsed) -> vm_routing (here or in the VM)
        -> fabrics/ machine/ traffic/ packets/ incidents/ (commands)
        -> tables/ (for people), answers/ (models of --json) ; kit/ (output, progress, options)
"""
