"""Asks one component how it is, for the container that runs it.

python -m stunwatch.runtime.healthcheck jobmanager
"""

from __future__ import annotations

import sys

from stunwatch.runtime.components import BY_NAME
from stunwatch.settings import load_settings


def main() -> None:
    """Exit with 1, and say why, where the component cannot be used."""
    if ailment := BY_NAME[sys.argv[1]].ailment(load_settings()):
        sys.exit(ailment)


if __name__ == "__main__":
    main()
