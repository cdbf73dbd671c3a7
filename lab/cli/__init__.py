"""The command line: parse, call one function, render. No logic.

Start at ``app``, the table of commands. A command's module is named after it::

    app -> vm_routing (here or in the VM) -> fabrics/ machine/ traffic/ packets/ incidents/ (commands)
        -> tables/ (for people), answers/ (models of --json) ; kit/ (output, progress, options)
"""
