"""Fabrics as fixtures of pytest: ``plugin`` is the plug-in, which imports the rest when a test asks for a fabric.

``asked`` is what a test wants, ``pool`` builds fabrics, shares them and takes them down, ``fabric`` is what a test
gets, ``counted`` and ``packets`` are what it asserts on, ``count`` is a number that explains itself.
"""
