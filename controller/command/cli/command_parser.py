"""An argument parser whose errors name what to do next."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class CommandParser(argparse.ArgumentParser):
    """A parser that accepts no abbreviations: a later option could change their meaning."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  one of its overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, and refuse what is unknown here, in the name of the subcommand.

        Unknown options come first: whatever else is missing may be meant by one of them.
        """
        self._refuse_unknown_options(sys.argv[1:] if args is None else args)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unexpected: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print the message and end with exit status 2."""
        self.exit(2, f"{self.prog}: {message}\nSee `{self.prog} --help`.\n")

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        known = self._option_string_actions
        for word in words:
            name = word.partition("=")[0]
            if word == "--" or (self._subparsers and not word.startswith("-")):
                return
            if word.startswith("--") and not {word, name} & known.keys():
                self.error(f"there is no option {name}{_suggestion(name, known)}")


def _suggestion(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
