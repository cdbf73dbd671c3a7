"""Record what happens on a fabric, and read it back.

Start at ``record.recorder`` to make a recording and at ``read.recording`` to read one::

    sample/  (all counters at a fixed rate, events)  ->  record/  (raw log, phases, commands)
                                                     ->  store/   (Parquet, JSON lines)  ->  read/  (series, views)
"""
