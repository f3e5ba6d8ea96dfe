"""`python -m tools.generate`: writes the generated files that differ, and prints their paths."""

from __future__ import annotations

import sys

from tools.generate import write
from tools.generate.mistakes import mistakes

if __name__ == "__main__":
    if found := mistakes():
        sys.exit("\n".join(found))
    for path in write():
        print(path)
