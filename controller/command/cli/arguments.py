"""Arguments that several subcommands take."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from controller.command.output import suggestion
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.command.kinds import KindSettings
    from controller.ray.api import FeatureGates

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


# An argument parser whose errors name what to do next.


class CommandParser(argparse.ArgumentParser):
    """A parser that accepts no abbreviations: a later option could change their meaning."""

    _commands: Commands | None = None

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

    def add_subparsers(self, **options: Any) -> Commands:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Add subcommands; a wrong one is refused with the nearest."""
        commands: Any = super().add_subparsers(**options)
        self._commands = commands
        return commands

    def subcommands(self) -> dict[str, tuple[str, CommandParser]]:
        """Return the help and the parser of each subcommand."""
        commands: Any = self._commands
        if commands is None:
            return {}
        helps = {each.dest: each.help for each in commands._choices_actions}  # noqa: SLF001
        return {name: (helps.get(name, ""), each) for name, each in commands.choices.items()}

    def options(self) -> dict[str, tuple[str, list[str]]]:
        """Return the help and the possible values of each option, which may be any."""
        return {
            name: (each.help or "", [str(choice) for choice in each.choices or ()])
            for each in self._actions
            for name in each.option_strings
        }

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        known = self._option_string_actions
        for word in words:
            name = word.partition("=")[0]
            if word == "--":
                return
            if self._commands is not None and not word.startswith("-"):
                commands = self._commands.choices
                if word not in commands:
                    near = suggestion(word, commands) or f"; there are {', '.join(commands)}"
                    self.error(f"there is no command {word}{near}")
                return
            if word.startswith("--") and not {word, name} & known.keys():
                self.error(f"there is no option {name}{suggestion(name, known)}")


def add_kubeconfig(command: argparse.ArgumentParser) -> None:
    """Add the options that choose a kubeconfig and a context of it."""
    command.add_argument("--kubeconfig", help="file to use instead of $KUBECONFIG")
    command.add_argument("--context", help="kubeconfig context to use instead of the current one")


def port(text: str) -> int:
    """Read the number of a port.

    Raises:
        argparse.ArgumentTypeError: it is not a port.
    """
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port, 1 to 65535")


def manifest(text: str) -> Path:
    """Read the path of a manifest.

    Raises:
        argparse.ArgumentTypeError: it is the address of one.
    """
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"{text} is an address; download the manifest and name the file, or - to pipe it in"
        )
    return Path(text)


def add_log_level(command: argparse.ArgumentParser) -> None:
    """Add the option for the lowest severity to log."""
    command.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="lowest severity to log",
    )


def add_output(command: argparse.ArgumentParser, *formats: str, text: str | None = None) -> None:
    """Add the option for the format of the output, by default the first; `text` is the help."""
    command.add_argument("-o", "--output", choices=formats, default=formats[0], help=text)


def add_machine(command: argparse.ArgumentParser) -> None:
    """Add the options of pods that run on this machine."""
    command.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=PATH",
        dest="images",
        help="run pods as processes, and those of image NAME (any tag, unless NAME has one) with "
        "the programs of the virtual environment PATH; may be repeated",
    )
    command.add_argument(
        "--isolation",
        choices=["auto", "namespaces", "shim"],
        default="auto",
        help="how to isolate pods that run as processes (default: the strongest that works here)",
    )


def add_kind_settings(command: argparse.ArgumentParser) -> None:
    """Add the options for settings of the kinds, by KubeRay's names; `kind_settings` reads them."""
    from controller.ray.api.batch_schedulers import BATCH_SCHEDULERS  # noqa: PLC0415
    from controller.ray.api.feature_gates import GATES  # noqa: PLC0415
    from controller.ray.settings import CERT_MANAGER, MTLS_ISSUERS  # noqa: PLC0415

    real = [
        f"{name} ({'on' if gate.default else 'off'})"
        for name, gate in GATES.items()
        if gate.fixed is None
    ]
    command.add_argument(
        "--feature-gates",
        default="",
        metavar="NAME=BOOL,...",
        help="switch features on or off by KubeRay's names, with their defaults: "
        + ", ".join(real),
    )
    command.add_argument(
        "--batch-scheduler",
        default="",
        metavar="NAME",
        help=f"scheduler of all pods, which starts clusters whole: {', '.join(BATCH_SCHEDULERS)}; "
        "the feature gate KubernetesWAS chooses Kubernetes' own",
    )
    command.add_argument(
        "--mtls-issuer",
        choices=MTLS_ISSUERS,
        default=CERT_MANAGER,
        help="who issues the certificates of clusters with mTLS; manta is the operator itself",
    )


def add_namespaces(command: argparse.ArgumentParser) -> None:
    """Add the options that choose one namespace, or all."""
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "-n",
        "--namespace",
        default="",
        help="namespace of the objects (default: that of the context)",
    )
    where.add_argument(
        "-A", "--all-namespaces", action="store_true", help="objects of all namespaces"
    )


def add_object(command: argparse.ArgumentParser) -> None:
    """Add the options of a command about one object: its namespace, whose cluster, the output."""
    command.add_argument(
        "-n",
        "--namespace",
        default="",
        help="namespace of the object (default: that of the context)",
    )
    add_kubeconfig(command)
    add_output(command, "text", "json")


def given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of a subcommand's options, by name."""
    return {name: value for name, value in vars(options).items() if name != "start"}


def kind_settings(options: argparse.Namespace) -> KindSettings:
    """Return the settings of the kinds, by feature gates, batch scheduler and issuer of mTLS.

    Raises:
        ConfigurationError: there is no such gate or scheduler.
    """
    from controller.command.kinds import KindSettings  # noqa: PLC0415

    gates = feature_gates(options)
    try:
        return KindSettings.from_environment(
            gates, batch_scheduler=options.batch_scheduler, mtls_issuer=options.mtls_issuer
        )
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def feature_gates(options: argparse.Namespace) -> FeatureGates:
    """Return the chosen feature gates.

    Raises:
        ConfigurationError: there is no such gate.
    """
    from controller.ray.api import FeatureGates  # noqa: PLC0415

    try:
        return FeatureGates.parse(options.feature_gates)
    except ValueError as error:
        raise ConfigurationError(f"--feature-gates: {error}") from error
