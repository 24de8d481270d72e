"""Prints what the code is like above the level of the line: sizes, import weight, settings, classes. Needs no Spark.

usage: python scripts/figures.py
"""  # noqa: INP001

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "foretide"
STARTERS = {"Thread", "Popen", "ThreadingHTTPServer", "start_http_server"}
"""What begins a thread, a process or a port."""

HEAVY = ("pyspark", "sqlalchemy", "pydantic", "pyarrow", "pandas", "jax")


def main() -> None:
    """Print all figures, a line each."""
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}
    classes = [(file, node) for file, tree in trees.items() for node in tree.body if isinstance(node, ast.ClassDef)]
    for name, value in (*_sizes(trees), *_names(classes), *_starts(classes), *_imports(), *_settings()):
        print(f"{name:58} {value}")  # noqa: T201


def _sizes(trees: dict[Path, ast.Module]) -> Iterator[tuple[str, object]]:
    packages = Counter(file.parent for file in trees if file.name != "__init__.py")
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in trees}
    largest, modules = packages.most_common(1)[0]
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lengths = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)
    yield "modules (of them __init__.py)", f"{len(trees)} ({len(trees) - sum(packages.values())})"
    yield "lines", f"{sum(lines.values()):,}"
    yield "largest folder", f"{largest.relative_to(SOURCE)}: {modules} modules"
    yield "folders over 15 modules", sum(count > 15 for count in packages.values())  # noqa: PLR2004
    yield "largest module", max((count, str(file.relative_to(SOURCE))) for file, count in lines.items())
    yield (
        "lines of a function: median, p99, max",
        [lengths[len(lengths) // 2], lengths[len(lengths) * 99 // 100], lengths[-1]],
    )


def _names(classes: list[tuple[Path, ast.ClassDef]]) -> Iterator[tuple[str, object]]:
    names = Counter(node.name for _, node in classes)
    twice = sorted(name for name, count in names.items() if count > 1 and not name.startswith("_"))
    yield "class names defined twice or more", f"{len(twice)}: {', '.join(twice)}"
    by_name = {node.name: node for _, node in classes}
    methods = {node.name: len(_methods(node, by_name)) for _, node in classes}
    yield "methods of the largest classes, inherited ones included", Counter(methods).most_common(8)


def _methods(node: ast.ClassDef, by_name: dict[str, ast.ClassDef]) -> set[str]:
    own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    bases = [
        base.id for base in node.bases if isinstance(base, ast.Name) and base.id in by_name and base.id != node.name
    ]
    return own.union(*(_methods(by_name[base], by_name) for base in bases))


def _starts(classes: list[tuple[Path, ast.ClassDef]]) -> Iterator[tuple[str, object]]:
    found = defaultdict(set)
    for _, node in classes:
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__" and _starts_something(method):
                found[node.name].add(method.lineno)
    yield "constructors that start a thread, port or process", f"{len(found)}: {', '.join(sorted(found))}"


def _starts_something(method: ast.FunctionDef) -> bool:
    calls = [node.func for node in ast.walk(method) if isinstance(node, ast.Call)]
    names = {getattr(func, "attr", getattr(func, "id", "")) for func in calls}
    return "start" in names or bool(names & (STARTERS - {"Thread"}))


def _imports() -> Iterator[tuple[str, object]]:
    for module in ("foretide", "foretide.control.step", "foretide.settings.settings"):
        yield f"import {module}: CPU seconds, modules", _fresh(f"import {module}")
    for arguments in (["--help"], ["plan", "--help"], ["status", "--help"], ["settings"], ["list"]):
        run = (
            f"import runpy\nsys.argv = ['foretide', *{arguments}]\n"
            "try:\n    runpy.run_module('foretide', run_name='__main__')\nexcept SystemExit:\n    pass"
        )
        yield f"foretide {' '.join(arguments)}: CPU seconds, modules", _fresh(run)


def _fresh(code: str) -> str:
    """CPU time and modules loaded by code in a new interpreter."""
    script = (
        "import os, sys, time\nbefore = len(sys.modules)\n"
        f"out, sys.stdout = sys.stdout, open(os.devnull, 'w')\n{code}\nsys.stdout = out\n"
        f"heavy = [name for name in {HEAVY} if name in sys.modules]\n"
        "print(f'{time.process_time():.2f} s, {len(sys.modules) - before}', *heavy)"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def _settings() -> Iterator[tuple[str, object]]:
    from foretide.settings.reference import SETTINGS  # noqa: PLC0415

    yield "settings", len(SETTINGS)


if __name__ == "__main__":
    main()
