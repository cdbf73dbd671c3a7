"""Comparison of two recordings: changes of values, verdicts and diagnoses. Only reads recordings.

Start at ``comparison``, which pairs everything once; the Markdown, the page and the terminal only render it::

    recording A --> run_window --+--> figures_in_window --> paired_values --> changes --+
    recording B --> run_window --+--> checks, diagnoses --------------------------------+--> comparison
                                                                                               |
                            terminal (lab.cli) | comparison_markdown | comparison_page  <-----+
"""
