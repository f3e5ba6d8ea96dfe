"""The pipelines of the end-to-end tests serve here too."""

from tests.end_to_end.conftest import pipelines

__all__ = ["pipelines"]
