"""Generates operation IDs of log lines, in every published form, with the user who requested it."""

from __future__ import annotations

import random
from dataclasses import dataclass

USERS = ("root", "vpxuser:LAB\\svc-backup", "vpxuser:LAB\\anna")


@dataclass(frozen=True, slots=True)
class Operation:
    """One request of a client."""

    op_id: str
    user: str = ""
    """As hostd logs it; empty if hostd does not log the request."""

    @property
    def asked_by(self) -> str | None:
        """Return the user without the agent that passed the request on."""
        return self.user.removeprefix("vpxuser:") or None


NO_OPERATION = Operation("")


def draw(rng: random.Random) -> Operation:
    """Return a random operation of some client, or none."""

    def digits(count: int) -> str:
        return f"{rng.getrandbits(4 * count):0{count}x}"

    def letters(count: int) -> str:
        return "".join(rng.choice("abcdefghijkmnopqrstuvwxyz0123456789") for _ in range(count))

    user = rng.choice(USERS)
    match rng.randrange(6):
        case 0:  # vim-cmd on the host
            return Operation(f"vim-cmd-{digits(2)}-{digits(4)}", "root")
        case 1:  # the vSphere Client through vCenter, with the parts of vCenter's agent and hostd
            number, task = rng.randrange(1_000, 90_000), rng.randrange(70_000_000, 70_999_999)
            parts = f"{digits(2)}-{digits(2)}-{digits(4)}"
            return Operation(f"{letters(8)}-{number}-auto-{letters(3)}-h5:{task}-{parts}", user)
        case 2:  # the host client
            return Operation(f"esxui-{digits(4)}-{digits(4)}", "root")
        case 3:  # vSphere HA
            host, number = rng.randrange(9, 99), rng.randrange(100, 999)
            return Operation(f"HB-host-{host}@{number}-{digits(8)}-{digits(2)}-{digits(4)}")
        case 4:
            return Operation(digits(8))
        case _:
            return NO_OPERATION
