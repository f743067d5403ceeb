"""Where the code opens transactions in which something may be written, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import payrec

ROOT = Path(payrec.__file__).parent


def writers(module: str) -> set[str]:
    """Return the functions of a module of payrec that open a transaction to write in, by their whole names there."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
    return {f"{module}.{name}" for name in _writing(tree)}


def _writing(tree: ast.AST, within: str = "") -> Iterator[str]:
    """Yield the functions of a module that open a transaction in which something may be written."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _writing(node, f"{within}{node.name}.")
        elif isinstance(node, ast.AsyncFunctionDef):
            inner = [n for n in ast.walk(node) if isinstance(n, ast.AsyncFunctionDef) and n is not node]
            nested = {id(item) for n in inner for w in ast.walk(n) if isinstance(w, ast.AsyncWith) for item in w.items}
            items = (item for w in ast.walk(node) if isinstance(w, ast.AsyncWith) for item in w.items)
            if any(_writes(item.context_expr) for item in items if id(item) not in nested):
                yield within + node.name
            for one in inner:
                yield from _writing(ast.Module([one], []), f"{within}{node.name}.<locals>.")


def _writes(opened: ast.expr) -> bool:
    if not isinstance(opened, ast.Call) or not isinstance(opened.func, ast.Attribute):
        return False
    is_reading = any(keyword.arg == "readonly" for keyword in opened.keywords)
    return opened.func.attr in {"tenant", "control", "_store"} and not is_reading
