"""Arguments that several subcommands take."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from typing import TypeAlias

    from controller.ray.api import FeatureGates

    # argparse has no public name for it
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


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
        choices=["auto", "namespaces", "shim", "shared"],
        default="auto",
        help="how to isolate pods that run as processes (default: the strongest that works here)",
    )


def add_feature_gates(command: argparse.ArgumentParser) -> None:
    """Add the option for KubeRay's feature gates; `feature_gates` reads it."""
    from controller.command.feature_gates import gates_help  # noqa: PLC0415

    command.add_argument("--feature-gates", default="", metavar="NAME=BOOL,...", help=gates_help())


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
