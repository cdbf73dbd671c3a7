"""Training jobs of a recording, explained: the waits of each step, and their places. Only reads recordings.

Start at ``job_explanation``, which explains one step; ``path_waits`` measures the paths of QPs, ``job_drawing`` and
``step_tables`` render for terminals and reports::

    recorded_jobs --> path_waits --> job_explanation --> job_drawing (terminal), JSON (lab.cli)
                  '-> step_tables (report), job_values (compare), job_playback (player)
"""
