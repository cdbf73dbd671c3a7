"""Commands about incidents: fault, scenario, diagnose, record, replay, report, compare, top."""
