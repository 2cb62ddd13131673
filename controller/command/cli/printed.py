"""What is printed for other programs: definitions, examples, and scripts that complete commands."""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import controller
from controller.command.cli.arguments import Commands, add_output
from controller.command.output import suggestion
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.command.cli.arguments import CommandParser

_PACKAGE: Final = Path(controller.__file__).parent
_FOLDERS: Final = (_PACKAGE / "examples", _PACKAGE.parent / "examples")
"""Of an installed package, and of a checkout."""


def add_crds(commands: Commands) -> None:
    """Add `manta crds`."""
    crds = commands.add_parser(
        "crds",
        help="print the CustomResourceDefinitions",
        description="Print the definitions. To install and to upgrade them: "
        "manta crds | kubectl apply --server-side --force-conflicts -f -",
    )
    crds.add_argument(
        "--kind",
        choices=["ray", "workspace"],
        default="ray",
        help="definitions of Ray's kinds or of Kaito's (default: ray)",
    )
    add_output(crds, "yaml", "json")
    crds.set_defaults(start=_crds)


def add_example(commands: Commands) -> None:
    """Add `manta example`."""
    example = commands.add_parser(
        "example",
        help="print a manifest to begin with",
        description="Print a commented manifest; without a name, list them. To apply one: manta "
        "example rayjob | kubectl apply -f -",
    )
    example.add_argument("name", nargs="?", help="name of the example, such as rayjob")
    example.set_defaults(start=_example)


def _crds(options: argparse.Namespace) -> int:
    import yaml  # noqa: PLC0415  only what the command needs

    from controller.command.output import CommandOutput  # noqa: PLC0415

    definitions = _definitions(options.kind)
    if options.output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
        CommandOutput(sys.stdout, as_json=True).document(listed)
    else:
        sys.stdout.write(yaml.dump_all(definitions, sort_keys=False, Dumper=yaml.CSafeDumper))
    return 0


def _definitions(kind: str) -> list[dict[str, Any]]:
    if kind == "workspace":  # few clusters need them, and Kaito's own work as well
        from controller.kaito.api.definitions import kaito_definitions  # noqa: PLC0415

        return kaito_definitions()
    from controller.ray.api import custom_resource_definitions  # noqa: PLC0415

    return custom_resource_definitions()


def _example(options: argparse.Namespace) -> int:
    files = example_files()
    if options.name is None:
        width = max(map(len, files), default=0)
        sys.stdout.writelines(f"{name:{width}}  {text}\n" for name, text in examples().items())
        return 0
    if options.name not in files:
        raise ConfigurationError(
            f"there is no example {options.name!r}; `manta example` lists them"
            f"{suggestion(options.name, files)}"
        )
    sys.stdout.write(files[options.name].read_text())
    return 0


def examples() -> dict[str, str]:
    """Return the first sentence about each example, by its name."""
    return {name: _summary(file) for name, file in example_files().items()}


def example_files() -> dict[str, Path]:
    """Return the file of each example, by its name."""
    return {file.stem: file for folder in _FOLDERS for file in sorted(folder.glob("*.yaml"))}


def _summary(file: Path) -> str:
    """Return the first sentence of the comment at the top."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), file.read_text().splitlines())
    return " ".join(line[1:].strip() for line in lines).partition(". ")[0].removesuffix(".")


_EPILOG: Final = """\
For this shell, and in the file that it reads at start:

  source <(manta completion bash)            ~/.bashrc
  source <(manta completion zsh)             ~/.zshrc, after compinit
  manta completion fish | source             ~/.config/fish/config.fish
"""


def add_completion(commands: Commands, manta: CommandParser) -> None:
    """Add `manta completion`, which completes what `manta` parses."""
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script by which a shell completes commands, options and their values.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=SHELLS, help="your shell")
    completion.set_defaults(start=partial(_complete, manta))


def _complete(manta: CommandParser, options: argparse.Namespace) -> int:
    sys.stdout.write(script(options.shell, manta, examples()))
    return 0


SHELLS: Final = ("bash", "zsh", "fish")
_TARGETS: Final = ("status", "why", "diagnose", "rollout")
_KINDS: Final = ("raycluster", "rayjob", "rayservice", "raycronjob", "rayclusterfleet")


@dataclass
class _Command:
    """What can follow a subcommand: words and options with their help, values of options."""

    words: dict[str, str] = field(default_factory=dict[str, str])
    options: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def all(self) -> dict[str, str]:
        """Words and options, with their help."""
        return self.words | self.options

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
    commands["completion"].words |= dict.fromkeys(SHELLS, "")
    from jinja2 import Environment, FileSystemLoader, select_autoescape  # noqa: PLC0415

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("completion")),
        autoescape=select_autoescape(default=False),
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return templates.get_template(shell).render(top=top, commands=commands)


def _first_line(text: str) -> str:
    """Return the text up to its first remark, in one line and without quotes."""
    for end in (";", " (", ": ", ". "):
        text = text.partition(end)[0]
    return " ".join(text.replace("'", "").replace(":", "").split())
