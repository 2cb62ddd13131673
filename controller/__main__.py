"""The `manta` command."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from controller import __version__
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from controller.command.takeover import ChangeOptions
    from controller.ray.api import FeatureGates
    from controller.runtime.settings import Settings

    # argparse has no public name for it
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001

EXAMPLES = {
    kind: Path(__file__).parents[1] / "examples" / f"{kind}.yaml"
    for kind in ("autoscaling", "raycluster", "rayjob")
}

_FULL_PACKAGE = (
    "Needs the full package (pip install in a checkout); the production image does not hold it."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run one subcommand; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.start(options)
        sys.stdout.flush()
    except BrokenPipeError:  # as `head` does: whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConfigurationError as error:
        sys.stderr.write(f"manta: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manta",
        description="Manta, a Kubernetes operator for Ray.",
        epilog="Exit status: 0 success or clean stop, 1 failed while running, 2 unusable input.",
    )
    parser.add_argument("--version", action="version", version=f"manta {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_dev(commands)
    _add_demo(commands)
    _add_plan(commands)
    _add_crds(commands)
    _add_take_over(commands)
    _add_hand_back(commands)
    return parser


def _add_run(commands: Commands) -> None:
    from controller.runtime.settings import Settings  # noqa: PLC0415  keeps `manta --help` quick

    default = Settings()
    run = commands.add_parser(
        "run",
        help="run the operator against a cluster",
        description="Run the operator. Inside a pod it uses the pod's service account, elsewhere "
        "a kubeconfig.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _add_kubeconfig(run)
    run.add_argument(
        "--namespace",
        "--watch-namespace",
        dest="namespaces",
        default="",
        help="namespaces to watch, separated by commas; empty means all",
    )
    run.add_argument(
        "--workers",
        "--reconcile-concurrency",
        type=int,
        default=default.workers,
        help="reconciles that may run at the same time, without those whose requests hang",
    )
    run.add_argument(
        "--metrics-address",
        "--metrics-addr",
        default=default.metrics_address,
        help="where /metrics is served; empty turns it off",
    )
    run.add_argument(
        "--health-address",
        "--health-probe-bind-address",
        default=default.health_address,
        help="where /healthz and /readyz are served; empty turns them off",
    )
    run.add_argument(
        "--grace-period",
        type=float,
        default=default.grace_seconds,
        help="seconds that running reconciles get after SIGTERM",
    )
    run.add_argument(
        "--sync-timeout",
        type=float,
        default=default.sync_timeout_seconds,
        help="seconds until caches that cannot be filled end the process",
    )
    run.add_argument(
        "--use-kubernetes-proxy",
        type=_truth,
        nargs="?",
        const=True,
        metavar="BOOL",
        help="reach Ray's dashboards through the API server's proxy (default: not in a pod)",
    )
    run.add_argument(
        "--check", action="store_true", help="say whether the API server can be reached, and end"
    )
    _add_feature_gates(run)
    _add_log_level(run)
    run.add_argument("--log-format", choices=["auto", "console", "json"], default="auto")
    run.set_defaults(start=_run)


def _truth(text: str) -> bool:
    """The words that KubeRay's flags understand."""
    if text.lower() in {"1", "t", "true"}:
        return True
    if text.lower() in {"0", "f", "false"}:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _run_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name: use at most 40 lower-case letters, digits and dashes"
        )
    return text


def _add_kubeconfig(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kubeconfig", help="file to use instead of $KUBECONFIG")
    command.add_argument("--context", help="kubeconfig context to use instead of the current one")


def _add_log_level(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info"
    )


def _add_feature_gates(command: argparse.ArgumentParser) -> None:
    from controller.command.feature_gates import gates_help  # noqa: PLC0415

    command.add_argument("--feature-gates", default="", metavar="NAME=BOOL,...", help=gates_help())


def _add_dev(commands: Commands) -> None:
    dev = commands.add_parser(
        "dev",
        help="run an embedded Kubernetes with the operator in it",
        description="An API server and a simulated node in this process, for kubectl and for "
        "trying manifests. Adds a context to a kubeconfig, says which, and takes it out at the "
        "end. Nothing is kept. " + _FULL_PACKAGE,
    )
    dev.add_argument(
        "--name",
        type=_run_name,
        help="of this cluster, for several at once; its context is manta-NAME (default: dev, or "
        "the first free one of dev-2, dev-3 and so on)",
    )
    dev.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    dev.add_argument(
        "--kubeconfig",
        type=Path,
        help="file that gets the context; it may hold others (default: one in ~/.cache/manta)",
    )
    dev.add_argument("--no-operator", action="store_true", help="only the cluster")
    dev.add_argument(
        "--crds", type=Path, help="file or folder of CRDs to install instead of Manta's own"
    )
    dev.add_argument(
        "--ray",
        action="store_true",
        help="run pods as processes with real Ray; its environment (about 500 MB) is made once, in "
        "~/.cache/manta",
    )
    _add_machine(dev)
    _add_log_level(dev)
    dev.set_defaults(start=_dev)


def _add_machine(command: argparse.ArgumentParser) -> None:
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


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="watch a cluster become ready, grow, shrink and be deleted, or a job run",
        description="Embedded cluster, operator and an example in one process. The exit status "
        "says whether everything worked. " + _FULL_PACKAGE,
    )
    demo.add_argument(
        "--kind",
        choices=sorted(EXAMPLES),
        default="raycluster",
        help="a RayCluster with simulated pods (default), a RayJob with real Ray, or a RayCluster "
        "that real Ray scales; the environment of Ray (about 500 MB) is made once",
    )
    demo.add_argument("-f", "--file", type=Path, help="a manifest of that kind")
    _add_machine(demo)
    demo.set_defaults(start=_demo)


def _add_plan(commands: Commands) -> None:
    plan = commands.add_parser(
        "plan",
        help="show what applying a manifest would do",
        description="Show what would be created, changed, replaced and deleted if a manifest were "
        "applied, or what the operator would do about the objects as they are, by its own "
        "planner. Nothing is written: the API server is only asked for dry runs, of the manifest "
        "and of every object that the operator would write, and what it would refuse is shown.",
        epilog="Exit status: 0 planned, 1 an object would be refused, 2 unusable input, "
        "3 something forbidden would happen.",
    )
    what = plan.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "-f", "--file", type=Path, help="manifest, a folder of manifests, or - for standard input"
    )
    what.add_argument("--all", action="store_true", help="all existing objects")
    plan.add_argument(
        "-n",
        "--namespace",
        default="",
        help="for manifests that name none (default); with --all only this one (all)",
    )
    plan.add_argument(
        "--forbid",
        action="append",
        choices=["create", "change", "replace", "delete"],
        default=[],
        help="fail if this would happen to anything; may be repeated",
    )
    plan.add_argument(
        "--offline", action="store_true", help="plan for an empty cluster instead of asking one"
    )
    _add_kubeconfig(plan)
    _add_feature_gates(plan)
    plan.add_argument("-o", "--output", choices=["text", "json"], default="text")
    plan.set_defaults(start=_plan)


def _add_crds(commands: Commands) -> None:
    crds = commands.add_parser(
        "crds",
        help="print the CustomResourceDefinitions",
        description="Print the definitions for `manta crds | kubectl apply -f -`.",
    )
    crds.add_argument("-o", "--output", choices=["yaml", "json"], default="yaml")
    crds.set_defaults(start=_crds)


def _add_take_over(commands: Commands) -> None:
    command = commands.add_parser(
        "take-over",
        help="start Manta in the place of KubeRay's operator",
        description="Hand all RayClusters, RayJobs and RayCronJobs from KubeRay's operator to "
        "Manta without touching a pod. Stops before anything is changed if Manta does not serve a "
        "kind that is there, if a pod would have to go, or if the image does not start. If it "
        "fails after KubeRay was stopped, or you press ^C, KubeRay is started again.",
        epilog="Exit status: 0 Manta is in charge, 1 KubeRay stays in charge, 2 unusable input, "
        "3 a pod would have to go, 130 interrupted. Needs helm, unless --no-install is given.",
    )
    command.add_argument(
        "--image",
        default="",
        metavar="REPOSITORY:TAG",
        help="Manta's image, which the cluster can pull; it is run once before KubeRay is stopped",
    )
    command.add_argument(
        "--image-pull-secret",
        action="append",
        default=[],
        metavar="NAME",
        dest="pull_secrets",
        help="Secret in that namespace for pulling the image; may be repeated",
    )
    command.add_argument(
        "--chart", type=Path, dest="chart_path", help="Manta's chart (default: the checkout's)"
    )
    command.add_argument(
        "--no-install",
        action="store_false",
        dest="chart",
        help="stop after KubeRay's operator is gone; you start Manta yourself",
    )
    _add_operators(command)
    command.set_defaults(start=_take_over)


def _add_hand_back(commands: Commands) -> None:
    command = commands.add_parser(
        "hand-back",
        help="start KubeRay's operator in the place of Manta",
        description="Stop Manta, start KubeRay's operator again with as many replicas as it had, "
        "and remove Manta's release once KubeRay runs. If KubeRay does not start, or you press ^C, "
        "Manta is started again.",
        epilog="Exit status: 0 KubeRay is in charge, 1 Manta stays in charge, 2 unusable input, "
        "130 interrupted. Needs helm, unless --no-uninstall is given.",
    )
    command.add_argument(
        "--no-uninstall",
        action="store_false",
        dest="chart",
        help="Manta does not run from the chart, and you have stopped it already",
    )
    _add_operators(command)
    command.set_defaults(start=_hand_back, image="", pull_secrets=[], chart_path=None)


def _add_operators(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-n", "--namespace", default="default", help="of both operators (default: default)"
    )
    command.add_argument(
        "--deployment",
        default="kuberay-operator",
        help="name of KubeRay's operator (default: kuberay-operator)",
    )
    command.add_argument(
        "--timeout", type=float, default=120.0, help="seconds that a step may take (default: 120)"
    )
    _add_kubeconfig(command)
    command.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default="text",
        help="json prints a summary, and the steps on standard error",
    )


def _run(options: argparse.Namespace) -> int:
    from controller.command.run import run  # noqa: PLC0415  only what the subcommand needs

    if options.check:
        from controller.command.check import check  # noqa: PLC0415

        return asyncio.run(check(kubeconfig=options.kubeconfig, context=options.context))
    try:
        settings = _settings(options)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return asyncio.run(
        run(
            settings,
            feature_gates=_feature_gates(options),
            use_proxy=options.use_kubernetes_proxy,
            kubeconfig=options.kubeconfig,
            context=options.context,
        )
    )


def _feature_gates(options: argparse.Namespace) -> FeatureGates:
    from controller.ray.api import FeatureGates  # noqa: PLC0415

    try:
        return FeatureGates.parse(options.feature_gates)
    except ValueError as error:
        raise ConfigurationError(f"--feature-gates: {error}") from error


def _settings(options: argparse.Namespace) -> Settings:
    from controller.runtime.settings import Settings  # noqa: PLC0415

    return Settings(
        namespaces=tuple(name for name in options.namespaces.split(",") if name),
        workers=options.workers,
        metrics_address=options.metrics_address,
        health_address=options.health_address,
        grace_seconds=options.grace_period,
        sync_timeout_seconds=options.sync_timeout,
        log_level=options.log_level,
        log_format=options.log_format,
    )


def _dev(options: argparse.Namespace) -> int:
    _require_development("dev")
    from controller.command.development.dev import DevOptions, dev  # noqa: PLC0415

    chosen = DevOptions(
        name=options.name,
        port=options.port,
        kubeconfig=options.kubeconfig,
        crds=options.crds,
        operator=not options.no_operator,
        log_level=options.log_level,
        ray=options.ray,
        images=tuple(options.images),
        isolation=options.isolation,
    )
    if options.isolation != "auto" and not chosen.processes:
        raise ConfigurationError(
            f"--isolation {options.isolation}: pods are simulated; add --ray or --image NAME=PATH"
        )
    return asyncio.run(dev(chosen))


def _require_development(command: str) -> None:
    """Refuse a command that this installation does not hold.

    Raises:
        ConfigurationError: the embedded cluster was left out, as in the production image.
    """
    needed = ("controller.devcluster", "controller.command.development", "cryptography")
    missing = [package for package in needed if not importlib.util.find_spec(package)]
    if missing:
        raise ConfigurationError(
            f"`manta {command}` needs the full package, and this installation leaves "
            f"{missing[0]} out, as the production image does. Install Manta from a checkout: "
            "pip install '.[cli,embedded]'"
        )


def _demo(options: argparse.Namespace) -> int:
    _require_development("demo")
    from controller.command.development.demos import (  # noqa: PLC0415
        autoscaling_demo,
        cluster_demo,
        job_demo,
    )
    from controller.command.signals import interruptible  # noqa: PLC0415

    manifest = options.file or EXAMPLES[options.kind]
    if options.kind == "rayjob":
        demo = job_demo(manifest, options.images, options.isolation)
    elif options.kind == "autoscaling":
        demo = autoscaling_demo(manifest, options.images, options.isolation)
    elif options.images or options.isolation != "auto":
        raise ConfigurationError("--image and --isolation are for --kind rayjob and autoscaling")
    else:
        demo = cluster_demo(manifest)
    return asyncio.run(interruptible(demo))


def _plan(options: argparse.Namespace) -> int:
    from controller.command.planning import PlanRequest, plan  # noqa: PLC0415

    gates = _feature_gates(options)
    for name, reason in gates.without_effect().items():
        sys.stderr.write(f"manta: feature gate {name} has no effect: {reason}\n")
    request = PlanRequest(
        options.file,
        namespace=options.namespace,
        offline=options.offline,
        feature_gates=gates,
        kubeconfig=options.kubeconfig,
        context=options.context,
    )
    return asyncio.run(plan(request, options.output, forbidden=options.forbid))


def _crds(options: argparse.Namespace) -> int:
    from controller.command.crds import crds  # noqa: PLC0415

    return crds(options.output)


def _take_over(options: argparse.Namespace) -> int:
    from controller.command.signals import interruptible  # noqa: PLC0415
    from controller.command.takeover import take_over  # noqa: PLC0415

    return asyncio.run(interruptible(take_over(_change_options(options))))


def _hand_back(options: argparse.Namespace) -> int:
    from controller.command.signals import interruptible  # noqa: PLC0415
    from controller.command.takeover import hand_back  # noqa: PLC0415

    return asyncio.run(interruptible(hand_back(_change_options(options))))


def _change_options(options: argparse.Namespace) -> ChangeOptions:
    from controller.command.takeover import ChangeOptions  # noqa: PLC0415

    return ChangeOptions(
        options.namespace,
        options.deployment,
        chart=options.chart,
        image=options.image,
        pull_secrets=tuple(options.pull_secrets),
        chart_path=options.chart_path,
        timeout=options.timeout,
        kubeconfig=options.kubeconfig,
        context=options.context,
        output=options.output,
    )


if __name__ == "__main__":
    sys.exit(main())
