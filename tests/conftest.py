"""Being here puts this folder on the path: tests of every folder can import the helpers in it."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # no test asserts a time
settings.load_profile("no deadline")
