"""What all tests share."""

from hypothesis import settings

# The same examples every time: a run is red because of a change, not because of its dice.
settings.register_profile("same_examples", derandomize=True)
settings.load_profile("same_examples")
