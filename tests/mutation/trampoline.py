"""Calls each function or, while a mutant of it is tried, the mutant.

mutmut decorates every function with a trampoline that reads the environment at each call, which
makes tests several times as slow. This one takes its place; it also notes what is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

Function = Callable[..., Any]

ORIGINAL = "_mutmut_orig"

called: set[int] = set()
"""Which of the functions have been called, by position in `_functions`."""

_functions: list[tuple[str, dict[str, Function]]] = []
"""Of each function the module, and its mutants by name. mutmut adds these after decoration."""


def install() -> None:
    """Take the place of mutmut's trampoline in modules that are imported from now on."""
    mutmut: Any = importlib.import_module("mutmut.mutation.trampoline")
    mutmut.wrap_in_trampoline = decorator


def decorator(
    mutants: dict[str, Function], *, is_classmethod: bool = False
) -> Callable[[Function], Function]:
    """Return what mutmut decorates a function with: see `wrap_in_trampoline` there."""

    def decorate(function: Function) -> Function:
        position = len(_functions)
        _functions.append((function.__module__, mutants))

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            called.add(position)
            return mutants[ORIGINAL](*args, **kwargs)

        @wraps(function)
        async def call_of_coroutine(*args: Any, **kwargs: Any) -> Any:
            called.add(position)
            return await mutants[ORIGINAL](*args, **kwargs)

        @wraps(function)
        def call_of_class(cls: type, *args: Any, **kwargs: Any) -> Any:
            called.add(position)
            return getattr(cls, mutants[ORIGINAL].__name__)(*args, **kwargs)

        if is_classmethod:
            return call_of_class
        return call_of_coroutine if iscoroutinefunction(function) else call

    return decorate


def names_called() -> set[str]:
    """Return what has been called, as mutants are named, without their number."""
    functions = (_functions[position] for position in called)
    return {
        f"{module}.{mutants[ORIGINAL].__name__.removesuffix('__mutmut_orig')}"
        for module, mutants in functions
    }


def switch_on(mutant: str) -> None:
    """Call `mutant` in place of its function, for the rest of this process."""
    module, _, name = mutant.rpartition(".")
    for other, mutants in _functions:
        if other == module and name in mutants:
            mutants[ORIGINAL] = mutants[name]
