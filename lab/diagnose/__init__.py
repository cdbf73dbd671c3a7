"""Diagnosis: facts of a window of time in, ranked root causes out. Pure; runs without root.

Start at ``run``; ``extract`` reads the facts, ``symptoms/`` are predicates over them, ``causes/`` is the table of
causes, and ``cause_engine`` ranks them::

    Recording -> extract -> WindowFacts -> symptoms/ -> causes/ -> cause_engine -> diagnosis
"""
