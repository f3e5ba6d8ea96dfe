"""Collect every regular expression of the project that is applied to external text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from stunwatch.detectors.catalogue import detectors
from stunwatch.detectors.host_events import OWNER_PATTERN
from stunwatch.ingest.heads import load_patterns

ROOT = Path(__file__).parents[2]
LINKED = [path for path in (ROOT / "stunwatch").iterdir() if path.is_symlink()]
"""The packages in `ingest` and `flink-jobs`."""

FROM_DATA = {"stunwatch.detectors.catalogue", "stunwatch.ingest.heads"}
"""They compile the patterns of detector.yaml and parsers.yaml."""

OWN_TEXTS = (
    "tools.documentation", "stunwatch.investigations", "stunwatch.report.drawing",
    "stunwatch.report.questions", "stunwatch.local", "stunwatch.schema",
    "tools.score", "stunwatch.simulation",
)  # fmt: skip
"""These read text that the project itself has written."""

METHODS = {
    ("stunwatch.ingest.records", "_FORMS"): ("match",),
    ("stunwatch.inventory.outputs", "_EXTENT"): ("fullmatch",),
    ("stunwatch.inventory.outputs", "_OLD_EXTENT"): ("fullmatch",),
    ("stunwatch.inventory.outputs", "_ADDRESS"): ("fullmatch",),
    ("stunwatch.inventory.outputs", "_SYSTEM_UUID"): ("fullmatch",),
}
"""Uses of patterns that the source code does not show."""

_METHODS = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")


@dataclass(frozen=True)
class Applied:
    """A pattern and the methods of `re.Pattern` by which it is applied."""

    name: str
    regex: re.Pattern[str]
    methods: tuple[str, ...]

    def run(self, text: str) -> None:
        """Apply it to a text with each method that the project uses."""
        for method in self.methods:
            if method == "sub":
                self.regex.sub("", text)
            elif method == "finditer":
                for _ in self.regex.finditer(text):
                    pass
            else:
                getattr(self.regex, method)(text)


def patterns() -> list[Applied]:
    """Return all patterns without duplicates: of parsers.yaml, the detectors and the code."""
    found = [
        *(Applied(f"parsers.yaml {each.name}", each.regex, ("match",)) for each in load_patterns()),
        *(
            Applied(f"{each.name} {name}", regex, ("search",))
            for each in detectors()
            for name, regex in each.patterns.items()
        ),
        Applied(
            "stunwatch.detectors.host_events OWNER_PATTERN", re.compile(OWNER_PATTERN), ("search",)
        ),
        *(each for module, path in _modules() for each in _of_module(module, path)),
    ]
    once = {(each.regex, each.methods): each for each in reversed(found)}
    return list(reversed(once.values()))


def _modules() -> Iterator[tuple[str, Path]]:
    for package in (ROOT / "stunwatch", *sorted(LINKED), ROOT / "tools"):
        for path in sorted(package.rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if not module.startswith(OWN_TEXTS):
                yield module, path


def _of_module(module: str, path: Path) -> Iterator[Applied]:
    text = path.read_text()
    if module in FROM_DATA or not re.search(r"^import re$", text, re.MULTILINE):
        return
    tree = ast.parse(text)
    yield from _compiled(module, tree, text)
    top = {id(node) for statement in tree.body for node in _outside_functions(statement)}
    for node in ast.walk(tree):
        if not _is_call_of_re(node) or id(node) in top:
            continue
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        given = node.args[0]
        assert isinstance(given, ast.Constant), (
            f"{path}:{node.lineno}: compile a pattern that is put together where the module begins"
        )
        yield Applied(f"{module}:{node.lineno}", re.compile(given.value), (node.func.attr,))


def _compiled(module: str, tree: ast.Module, text: str) -> Iterator[Applied]:
    """Yield the patterns that a module compiles at its top level, by name."""
    if not any(_is_call_of_re(node) for each in tree.body for node in _outside_functions(each)):
        return
    for name, value in vars(import_module(module)).items():
        used = tuple(
            each for each in _METHODS if re.search(rf"\b{name}(?:\[[^\]]*\])?\.{each}\(", text)
        )
        for number, regex in enumerate(_inside(value)):
            applied = METHODS.get((module, name)) or used or ("search",)
            yield Applied(f"{module} {name} {number}", regex, applied)


def _inside(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        # A pattern for bytes takes as long as the same one for text.
        is_text = isinstance(value.pattern, str)
        yield value if is_text else re.compile(value.pattern.decode("latin-1"), re.ASCII)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _inside(each)
    elif type(value) in (tuple, list):
        for each in value:
            yield from _inside(each)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
        return
    yield node
    for each in ast.iter_child_nodes(node):
        yield from _outside_functions(each)


def _is_call_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in ("compile", *_METHODS)
    )
