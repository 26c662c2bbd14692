"""
The tests of saltwisted.

Property tests draw the same examples each time and have no deadline: a busy machine
is not a failure.
"""

from hypothesis import settings

settings.register_profile("saltwisted", deadline=None, derandomize=True)
settings.load_profile("saltwisted")
