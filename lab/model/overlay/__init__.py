"""The overlay of a fabric: what is asked for, whether it can be, and what each node is to have of it. All pure."""
