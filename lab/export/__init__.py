"""Fabrics for other tools to run, and their labs as fabrics. Pure: files from the same plan that namespaces use.

Start at ``containerlab`` and ``clabernetes`` to write, ``from_lab`` to read::

    Topology + plan -> containerlab | clabernetes -> folder ;  clab.yml -> lab_reader -> from_lab -> topology file
"""
