"""Alert rules for Prometheus, and their evaluation on recordings by promtool.

Start at ``rule_tests``::

    recording  ->  recorded_metrics  ->  rule_tests (promtool)  ->  fired_alerts (root alerts, proof)

The rules and the Alertmanager configuration are ``rocelab-roce.rules.yml`` and ``alertmanager.yml`` in this folder.
They work unchanged on real clusters.
"""
