"""Arguments that several subcommands take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from typing import TypeAlias

    from controller.ray.api import FeatureGates

    # argparse has no public name for it
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


def add_kubeconfig(command: argparse.ArgumentParser) -> None:
    """Add the options that choose a kubeconfig and a context of it."""
    command.add_argument("--kubeconfig", help="file to use instead of $KUBECONFIG")
    command.add_argument("--context", help="kubeconfig context to use instead of the current one")


def add_log_level(command: argparse.ArgumentParser) -> None:
    """From which level on lines are logged."""
    command.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="least severity that is logged",
    )


def add_output(command: argparse.ArgumentParser, *formats: str, text: str | None = None) -> None:
    """The format of what is printed, by default the first; `text` is the help."""
    command.add_argument("-o", "--output", choices=formats, default=formats[0], help=text)


def add_machine(command: argparse.ArgumentParser) -> None:
    """Add the options of pods that run on this machine."""
    command.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=PATH",
        dest="images",
        help="run pods as processes; those of image NAME (any tag, unless NAME has one) with the "
        "programs of a virtual environment; may be repeated",
    )
    command.add_argument(
        "--isolation",
        choices=["auto", "namespaces", "shim", "shared"],
        default="auto",
        help="how pods that are processes are kept apart (default: the best that is possible here)",
    )


def add_feature_gates(command: argparse.ArgumentParser) -> None:
    """KubeRay's feature gates; `feature_gates` reads them."""
    from controller.command.feature_gates import gates_help  # noqa: PLC0415

    command.add_argument("--feature-gates", default="", metavar="NAME=BOOL,...", help=gates_help())


def feature_gates(options: argparse.Namespace) -> FeatureGates:
    """The chosen feature gates.

    Raises:
        ConfigurationError: there is no such gate.
    """
    from controller.ray.api import FeatureGates  # noqa: PLC0415

    try:
        return FeatureGates.parse(options.feature_gates)
    except ValueError as error:
        raise ConfigurationError(f"--feature-gates: {error}") from error
