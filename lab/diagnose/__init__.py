"""What is wrong with a fabric: facts of a window of time in, root causes out. Pure: it runs without root."""
