"""Fabrics as pytest fixtures.

Start at ``plugin``, the plug-in, which imports the rest when a test uses a fabric. ``marker`` parses a
test's request, ``pool`` builds and shares fabrics, ``fabric_fixture`` is the fixture of a test. Tests assert on
``block_counters`` and ``block_packets``::

    @pytest.mark.rocelab(...) -> marker -> pool -> fabric_fixture -> block_counters, block_packets, scenario_runs
"""
