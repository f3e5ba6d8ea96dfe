"""Starts a component: supervisord runs this module, which execs the real process.

Every start, including a restart after a crash, therefore first ends leftover processes and prepares
the component. It also keeps passwords out of supervisord's configuration.

    python -m stunwatch.local.launch kafka
"""

from __future__ import annotations

import os
import sys

from stunwatch.local.components import BY_NAME
from stunwatch.local.processes import MARK, end, processes
from stunwatch.settings import load_settings


def main() -> None:
    """Prepare the component named on the command line, then exec it."""
    name = sys.argv[1]
    settings = load_settings()
    settings.make_folders()
    # A client survives a killed keeper.
    end([each for each in processes(settings) if each.component == name], patience_seconds=2.0)
    launch = BY_NAME[name].launch(settings)
    environment = {**os.environ, **launch.environment, MARK: name}
    sys.stdout.flush()
    os.nice(launch.niceness)
    os.execvpe(launch.command[0], launch.command, environment)  # noqa: S606 (no shell wanted)


if __name__ == "__main__":
    main()
