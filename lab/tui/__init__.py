"""What is drawn on a terminal that somebody watches: a fabric as it runs, recordings. Only here is Textual."""
