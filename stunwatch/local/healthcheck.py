"""Checks the health of one component, for the container that runs it.

python -m stunwatch.local.healthcheck jobmanager
"""

from __future__ import annotations

import sys

from stunwatch.local.components import BY_NAME
from stunwatch.settings import load_settings


def main() -> None:
    """Exit with 1 and print the problem if the component is unhealthy."""
    if unhealthy_reason := BY_NAME[sys.argv[1]].unhealthy_reason(load_settings()):
        sys.exit(unhealthy_reason)


if __name__ == "__main__":
    main()
