"""Schedules of jobs as files of other tools: Chakra execution traces, read and written, and GOAL, written.

Start at ``chakra_trace``. ``et_def_pb2`` is generated from ``et_def.proto``, the schema that MLCommons publishes::

    chakra_trace (files, *.et) <-> rank_schedule -> goal_text (messages of each collective)
         '- et_def_pb2
"""
