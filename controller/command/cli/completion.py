"""`manta completion`: scripts for bash, zsh and fish, made from the parser of `manta`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from controller.command.cli.printed import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from controller.command.cli.arguments import CommandParser, Commands

_EPILOG: Final = """\
For this shell, and in the file that it reads at start:

  source <(manta completion bash)            ~/.bashrc
  source <(manta completion zsh)             ~/.zshrc, after compinit
  manta completion fish | source             ~/.config/fish/config.fish
"""


def add(commands: Commands, manta: CommandParser) -> None:
    """Add `manta completion`, which completes what `manta` parses."""
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script by which a shell completes commands, options and their values.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="your shell")
    completion.set_defaults(start=partial(_start, manta))


def _start(manta: CommandParser, options: argparse.Namespace) -> int:
    sys.stdout.write(script(options.shell, manta, examples()))
    return 0


_TARGETS: Final = ("status", "why", "diagnose", "rollout")
_KINDS: Final = ("raycluster", "rayjob", "rayservice", "raycronjob", "rayclusterfleet")


@dataclass
class _Command:
    """What can follow a subcommand: words and options with their help, values of options."""

    words: dict[str, str] = field(default_factory=dict[str, str])
    options: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def take(self, parser: CommandParser) -> None:
        """Add what this parser knows, and its subcommands."""
        for name, (text, choices) in parser.options().items():
            self.options[name] = _first_line(text)
            if choices:
                self.values[name] = choices
        for name, (text, inner) in parser.subcommands().items():
            self.words[name] = _first_line(text)
            self.take_options(inner)

    def take_options(self, parser: CommandParser) -> None:
        """Add the options of a subcommand's subcommand."""
        inner = _Command()
        inner.take(parser)
        self.options |= inner.options
        self.values |= inner.values


def script(shell: str, parser: CommandParser, examples: Mapping[str, str]) -> str:
    """Return the script for `bash`, `zsh` or `fish`; `examples` are those of `manta example`."""
    top = _Command()
    commands: dict[str, _Command] = {}
    for name, (text, inner) in parser.subcommands().items():
        top.words[name] = _first_line(text)
        command = commands[name] = _Command()
        command.take(inner)
        if name in _TARGETS:
            command.words |= dict.fromkeys(_KINDS, "")
    top.options = {name: _first_line(text) for name, (text, _) in parser.options().items()}
    commands["example"].words |= {name: _first_line(text) for name, text in examples.items()}
    commands["completion"].words |= dict.fromkeys(SCRIPTS, "")
    return "\n".join([*SCRIPTS[shell](top, commands), ""])


def _first_line(text: str) -> str:
    """Return the text up to its first remark, in one line and without quotes."""
    for end in (";", " (", ": ", ". "):
        text = text.partition(end)[0]
    return " ".join(text.replace("'", "").replace(":", "").split())


def _bash(top: _Command, commands: Mapping[str, _Command]) -> Iterator[str]:
    yield "# source <(manta completion bash)"
    yield "_manta() {"
    yield '  local word command="" words=""'
    yield '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield f'    case "$word" in {"|".join(commands)}) command="$word"; break ;; esac'
    yield "  done"
    yield '  case "$command $before" in'
    for name, command in commands.items():
        for option, values in command.values.items():
            yield f'    "{name} {option}") words="{" ".join(values)}" ;;'
    yield '    *) case "$command" in'
    yield f'      "") words="{" ".join((*top.words, *top.options))}" ;;'
    for name, command in commands.items():
        yield f'      {name}) words="{" ".join((*command.words, *command.options))}" ;;'
    yield "    esac ;;"
    yield "  esac"
    yield '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")'
    yield "}"
    yield "complete -o default -F _manta manta"


def _zsh(top: _Command, commands: Mapping[str, _Command]) -> Iterator[str]:
    def described(words: Mapping[str, str]) -> str:
        return " ".join(f"'{word}:{text}'" if text else f"'{word}'" for word, text in words.items())

    yield "#compdef manta"
    yield "# source <(manta completion zsh), after compinit"
    yield "_manta() {"
    yield "  local word command='' before=${words[CURRENT-1]}"
    yield "  local -a found"
    yield "  for word in ${words[2,CURRENT-1]}; do"
    yield f"    case $word in ({'|'.join(commands)}) command=$word; break ;; esac"
    yield "  done"
    yield '  case "$command $before" in'
    for name, command in commands.items():
        for option, values in command.values.items():
            yield f"    ('{name} {option}') found=({' '.join(values)}) ;;"
    yield "    (*) case $command in"
    yield f"      ('') found=({described(top.words | top.options)}) ;;"
    for name, command in commands.items():
        yield f"      ({name}) found=({described(command.words | command.options)}) ;;"
    yield "    esac ;;"
    yield "  esac"
    yield "  _describe manta found || _files"
    yield "}"
    yield "compdef _manta manta"


def _fish(top: _Command, commands: Mapping[str, _Command]) -> Iterator[str]:
    yield "# manta completion fish | source"
    for word, text in top.words.items():
        yield f"complete -c manta -f -n __fish_use_subcommand -a {word} -d '{text}'"
    for name, command in commands.items():
        seen = f"complete -c manta -n '__fish_seen_subcommand_from {name}'"
        for word, text in command.words.items():
            yield f"{seen} -f -a {word} -d '{text}'"
        for option, text in command.options.items():
            dashes = "-l" if option.startswith("--") else "-s"
            values = command.values.get(option)
            chosen = f" -x -a '{' '.join(values)}'" if values else ""
            yield f"{seen} {dashes} {option.lstrip('-')} -d '{text}'{chosen}"


SCRIPTS: Final[Mapping[str, Callable[[_Command, Mapping[str, _Command]], Iterator[str]]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
