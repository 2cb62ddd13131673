"""Command lines as Go's `flag` package reads them.

One dash or two, `-flag=value` or `-flag value`; a boolean flag takes a value only after `=`.
Reading ends at `--` or the first word that is not a flag. Only empty words may follow: KubeRay's
chart adds one if no feature gate is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def truth(text: str) -> bool:
    """Parse a boolean as `strconv.ParseBool` does. Raises `ValueError` for anything else."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("neither true nor false")


def parse(
    arguments: Sequence[str], flags: Mapping[str, Callable[[str], object]]
) -> dict[str, object]:
    """Return the values of the given flags by name; of a repeated flag the last one counts.

    Args:
        arguments: the words of the command line.
        flags: reads the value of each flag; `truth` makes it a boolean one.

    Raises:
        ValueError: a flag does not exist, lacks its value or cannot be read; the message names it.
    """
    found: dict[str, object] = {}
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word in {"-", "--"}:
            if word != "--":
                words.insert(0, word)
            break
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in flags:
            raise ValueError(f"-{name}: there is no such flag; see -help")
        if not equals:
            value = _next_value(name, words, boolean=flags[name] is truth)
        try:
            found[name] = flags[name](value)
        except ValueError as error:
            raise ValueError(f"-{name}={value}: {error}") from error
    if left := next(filter(None, words), ""):
        raise ValueError(f"{left!r} is not a flag; see -help")
    return found


def _next_value(name: str, words: list[str], *, boolean: bool) -> str:
    if boolean:
        return "true"
    if not words:
        raise ValueError(f"-{name}: a value is missing")
    return words.pop(0)
