"""Properties are about right and wrong: what takes long on a busy machine is pytest's timeout to judge.

They try the same examples each time; ``--hypothesis-profile search`` tries new ones.
"""

from hypothesis import settings

settings.register_profile("search", deadline=None)
settings.register_profile("rocelab", deadline=None, derandomize=True)
settings.load_profile("rocelab")
