"""Shows the progress of a triage on standard error."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Show:
    """A progress bar for a `with` block. Call it with the stage and the bytes read since.

    It starts no thread, so that processes can be forked while it is shown.
    """

    def __init__(self, console: Console, total_bytes: int) -> None:
        columns = (
            TextColumn("{task.description:12}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
        self._stage = "reading"
        self._task: TaskID = self._progress.add_task(self._stage, total=total_bytes or None)

    def __call__(self, stage: str, done: int) -> None:
        """Update the bar."""
        if stage != self._stage:
            self._stage = stage
            self._progress.reset(self._task, description=stage, total=None)
        self._progress.update(self._task, advance=done)
        self._progress.refresh()

    def __enter__(self) -> Show:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bar, also after an error."""
        self._progress.stop()
