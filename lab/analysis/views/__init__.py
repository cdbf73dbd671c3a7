"""Views of a capture: one connection as a ladder, a plot of goodput, one packet from link to link."""
