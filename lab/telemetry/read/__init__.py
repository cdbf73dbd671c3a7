"""Reading recordings: time series, events, transfers, and the tables that ``top`` and ``replay`` show."""
