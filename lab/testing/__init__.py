"""Fabrics as pytest fixtures. ``plugin`` is the plug-in; it imports the rest when a test asks for a fabric.

``marker`` is what a test asks for, ``pool`` builds and shares fabrics, ``fabric_fixture`` is what a test gets,
``block_counters`` and ``block_packets`` are what it asserts on::

    @pytest.mark.rocelab(...) -> marker -> pool -> fabric_fixture -> block_counters, block_packets, scenario_runs
"""
