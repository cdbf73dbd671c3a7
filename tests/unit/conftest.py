"""Properties are about right and wrong: what takes long on a busy machine is pytest's timeout to judge."""

from hypothesis import settings

settings.register_profile("rocelab", deadline=None)
settings.load_profile("rocelab")
