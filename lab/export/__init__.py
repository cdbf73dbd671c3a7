"""A fabric for other machines to run, and their labs as fabrics: files from the plan that namespaces are built by."""
