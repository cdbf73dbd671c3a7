"""Export fabrics to other tools, and import their labs as fabrics. Pure: files from the plan that namespaces use.

Start at ``containerlab`` and ``clabernetes`` to write, ``from_lab`` to read::

    Topology + plan -> containerlab | clabernetes -> folder ;  clab.yml -> lab_reader -> from_lab -> topology file
"""
