"""What plays a fabric: its life from journal to teardown, and the backends that build it."""
