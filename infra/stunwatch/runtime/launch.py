"""Becomes a component: the supervisor starts this, and this turns into the real process.

So every start, a restart after a crash too, first ends what the last one left behind and prepares
what the component needs; passwords stand in no configuration of the supervisor.

    python -m stunwatch.runtime.launch kafka
"""

from __future__ import annotations

import os
import sys

from stunwatch.runtime.components import BY_NAME
from stunwatch.runtime.processes import MARK, end, processes
from stunwatch.settings import load_settings


def main() -> None:
    """Prepare the component named on the command line and become it."""
    name = sys.argv[1]
    settings = load_settings()
    settings.make_folders()
    # Python workers outlive a killed TaskManager, a client a killed keeper.
    end([each for each in processes(settings) if each.component == name], patience_seconds=2.0)
    launch = BY_NAME[name].launch(settings)
    environment = {**os.environ, **launch.environment, MARK: name}
    sys.stdout.flush()
    os.execvpe(launch.command[0], launch.command, environment)  # noqa: S606 (no shell wanted)


if __name__ == "__main__":
    main()
