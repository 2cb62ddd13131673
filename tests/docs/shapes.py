"""Finds places in the functions of a program that have the same shape.

A line of a shape is a statement, or the head of a compound one. Names, constants and texts do not
count, so a copy is found although everything in it was renamed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LEAST_LINES = 6
LEAST_STATEMENTS = 3
"""Fewer statements are an argument list that happens to be long."""

_INSIDE = (ast.stmt, ast.ExceptHandler, ast.match_case, ast.expr_context)
_LEAVES = (ast.Constant, ast.JoinedStr)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN = (*_LEAVES, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Load)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a shape.

    Attributes:
        shape: the statement without names and constants.
        depth: how deep it is nested.
        first: its first line in the file.
        last: its last one; of a compound statement, that of its head.
        size: the lines that count: a text is one, however long.
    """

    shape: str
    depth: int
    first: int
    last: int
    size: int


Run = list[Line]
"""Lines without a declaration between them."""


@dataclass(frozen=True, slots=True, order=True)
class Repetition:
    """Two places of the same shape, each as `module:first-last`."""

    size: int
    one: str
    other: str


def repetitions(program: Mapping[str, str]) -> list[Repetition]:
    """Return all pairs of places in modules, given by name, that share six lines or more."""
    runs = [(name, run) for name, text in program.items() for run in runs_of(ast.parse(text))]
    places = defaultdict[tuple[object, ...], list[tuple[int, int]]](list)
    for number, (_, run) in enumerate(runs):
        for start in range(len(run) - LEAST_STATEMENTS + 1):
            places[_key(run, start, LEAST_STATEMENTS)].append((number, start))
    found: list[Repetition] = []
    for same in places.values():
        for (one, i), (other, j) in combinations(same, 2):
            length = _shared(runs[one][1], i, runs[other][1], j, apart=one != other)
            if length < LEAST_STATEMENTS:
                continue
            ends = ((runs[one], i), (runs[other], j))
            parts = [(name, run[at : at + length]) for (name, run), at in ends]
            size = min(sum(line.size for line in part) for _, part in parts)
            if size >= LEAST_LINES:
                names = (f"{name}:{part[0].first}-{part[-1].last}" for name, part in parts)
                found.append(Repetition(size, *names))
    return sorted(found, reverse=True)


def _key(run: Run, start: int, length: int) -> tuple[object, ...]:
    part = run[start : start + length]
    return tuple((line.shape, line.depth - part[0].depth) for line in part)


def _shared(one: Run, i: int, other: Run, j: int, *, apart: bool) -> int:
    """Return how many lines are alike from here on; 0 if those before are alike too."""

    def alike(step: int) -> bool:
        first, second = one[i + step], other[j + step]
        depth = first.depth - one[i].depth == second.depth - other[j].depth
        return depth and first.shape == second.shape

    if i and j and alike(-1):
        return 0
    most = min(len(one) - i, len(other) - j, len(one) if apart else j - i)
    return next((step for step in range(most) if not alike(step)), most)


def runs_of(module: ast.Module) -> Iterator[Run]:
    """Yield the shapes of a module, divided where something is only declared."""
    run: Run = []
    for line in _lines(module.body, 0, declares=True):
        if line is not None:
            run.append(line)
        elif run:
            yield run
            run = []
    yield run


def _lines(body: Iterable[ast.stmt], depth: int, *, declares: bool) -> Iterator[Line | None]:
    """Yield the lines of a block, None where something is only declared."""
    for each in body:
        if is_declaration(each, declares=declares):
            yield None
        elif isinstance(each, ast.ClassDef):
            yield None
            yield from _lines(each.body, depth, declares=True)
            yield None
        elif isinstance(each, _FUNCTIONS):
            yield None
            yield from _blocks(each, depth)
            yield None
        elif not _is_text(each):
            yield _line(each, depth)
            yield from _blocks(each, depth)


def _blocks(node: ast.stmt, depth: int) -> Iterator[Line | None]:
    assigns = isinstance(node, _FUNCTIONS) and node.name == "__init__"
    yield from _lines(getattr(node, "body", ()), depth + 1, declares=assigns)
    for handler in getattr(node, "handlers", ()):
        yield _line(handler, depth)
        yield from _lines(handler.body, depth + 1, declares=False)
    for case in getattr(node, "cases", ()):
        if _gives_value(case.body):  # the row of a table
            yield None
            continue
        yield Line(shape(case), depth + 1, case.pattern.lineno, case.pattern.lineno, 1)
        yield from _lines(case.body, depth + 2, declares=False)
    for name in ("orelse", "finalbody"):
        block: list[ast.stmt] = getattr(node, name, [])
        if block:
            yield Line(name, depth, block[0].lineno - 1, block[0].lineno - 1, 1)
        yield from _lines(block, depth + 1, declares=False)


def _line(node: ast.stmt | ast.ExceptHandler, depth: int) -> Line:
    inside: Sequence[ast.AST] = getattr(node, "body", None) or getattr(node, "cases", [])
    last = (node.end_lineno or node.lineno) if not inside else _first_line(inside[0]) - 1
    last = max(last, node.lineno)
    is_short = _is_plain(getattr(node, "value", None))
    raised = node.exc if isinstance(node, ast.Raise) else getattr(node, "value", None)
    is_short = is_short or (isinstance(node, ast.Raise | ast.Return) and _is_plain_call(raised))
    size = 1 if is_short else last - node.lineno + 1 - (0 if inside else _lines_of_texts(node))
    return Line(shape(node), depth, node.lineno, last, size)


def _first_line(node: ast.AST) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 0)


def _lines_of_texts(node: ast.AST) -> int:
    """Return by how many lines the texts of a statement make it longer."""
    texts = {
        (each.lineno, each.end_lineno or each.lineno)
        for each in ast.walk(node)
        if isinstance(each, _LEAVES)
    }
    return sum(last - first for first, last in texts)


def is_declaration(node: ast.stmt, *, declares: bool) -> bool:
    """Return whether a statement is an import, an assignment that declares, or a row of a table.

    Args:
        node: the statement.
        declares: it stands in a module, a class or `__init__`, where assignments declare.
    """
    match node:
        case ast.Import() | ast.ImportFrom() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign() | ast.AnnAssign() if declares:
            return True
        case (
            ast.Expr(value=ast.Call(args=[ast.Constant(value=str()), *_]) as row)
            | ast.Assign(value=ast.Call(args=[ast.Constant(value=str()), *_]) as row)
        ):
            return _is_plain_call(row)
        case _:
            return False


def _is_plain_call(node: ast.expr | None) -> bool:
    """Return whether it is a call, or a call's result, of texts and names only."""
    if not isinstance(node, ast.Call):
        return False
    return all(map(_is_plain, (*node.args, *(each.value for each in node.keywords))))


def _is_plain(node: ast.expr | None) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Constant):
        return True
    return node is not None and all(isinstance(each, _PLAIN) for each in ast.walk(node))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _gives_value(body: Sequence[ast.stmt]) -> bool:
    last = body[-1]
    return isinstance(last, ast.Return) and len(body) == 1 and _is_plain(last.value)


def shape(node: ast.AST) -> str:
    """Return a statement's or expression's form, without what is nested below its head."""
    match node:
        case ast.Name() | ast.arg():
            return "_"
        case ast.Constant() | ast.JoinedStr():
            return "0"
        case ast.Attribute(value=owner):
            return f"{shape(owner)}._"
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            children: Iterable[ast.AST] = (arguments,)
        case ast.AnnAssign(target=target, value=value):
            children = chain((target,), () if value is None else (value,))
            return f"Assign({','.join(map(shape, children))})"
        case _:
            children = ast.iter_child_nodes(node)
    parts = (shape(each) for each in children if not isinstance(each, _INSIDE))
    return f"{type(node).__name__}({','.join(parts)})"
