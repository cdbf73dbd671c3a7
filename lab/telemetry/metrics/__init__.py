"""Metrics for Prometheus: the counters of a fabric under the names that exporters of real clusters use.

Start at ``metric_families``, the registry of families; ``live_metrics`` reads a running fabric for them::

    sample (counters)  ->  counter_metrics  ->
    bgpd, bfdd         ->  routing_metrics  ->  live_metrics  ->  exposition  ->  metrics_server

The counters and their meaning come from ``lab.dataplane.counter_names`` and ``lab.telemetry.read.measures``.
"""
