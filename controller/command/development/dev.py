"""`manta dev`: an embedded Kubernetes for one person, with the operator in it.

It prints the kubeconfig to use and runs until it is stopped; nothing is stored.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from controller.command.development.embedded_cluster import (
    EmbeddedCluster,
    embedded_cluster,
    follow,
)
from controller.command.development.process_node import images_for, process_node
from controller.command.development.runs import (
    DEFAULT_NAME,
    Run,
    cache_dir,
    claim,
    clean_up,
    running,
)
from controller.command.kinds import KindSettings
from controller.command.manifests import load
from controller.command.operator import operator_for
from controller.command.output import duration
from controller.command.process import INTERRUPTED, stop_on_signals, unless_stopped, wall
from controller.command.status.page import dashboard_address
from controller.command.status.page_server import OwnerOnly, PageServer
from controller.command.status.reading import (
    EVENTS,
    KINDS,
    MODEL_CHILDREN,
    Seen,
    Watch,
    read,
    watching,
)
from controller.command.status.run import colour_of, event_rows, overview_rows
from controller.command.status.tree import last_events, overview
from controller.kaito.api.definitions import kaito_definitions
from controller.kube.errors import ConfigurationError, PathNotFound
from controller.kube.objects import Pod
from controller.kube.resources import CRDS, PODS
from controller.ray.api import FeatureGates, custom_resource_definitions
from controller.ray.api.feature_gates import CLUSTER_FLEET, WORKSPACE
from controller.ray.api.pod_state import is_head
from controller.runtime.settings import LogLevel, Settings, configure_logging
from demos.view import pod_state
from devcluster.karpenter import ClaimBehaviour
from devcluster.nodes import NodeSettings
from devcluster.nodes.components import NodeShape
from devcluster.processes.isolation import IsolationOption

# Announces where Ray's dashboards can be reached from this machine.


def announcer(say: Callable[[str], None], ray: str) -> Callable[[str, Pod | None], None]:
    """Return what announces the dashboard of every head that becomes ready, once for each address.

    The address is that of the head's pod, so a replacement head has a new one. `ray` is Ray's own
    program, which can submit jobs there.
    """
    announced: dict[str, str] = {}

    def saw_pod(key: str, pod: Pod | None) -> None:
        if pod is None:
            announced.pop(key, None)
        elif pod_state(pod) == "Ready" and announced.get(key) != dashboard_address(pod):
            address = announced[key] = dashboard_address(pod)
            cluster = (pod.metadata.labels or {}).get("ray.io/cluster", "")
            say(
                f"RayCluster {pod.metadata.namespace}/{cluster}: dashboard at {address} "
                f"({ray} job submit --address {address} -- COMMAND)"
            )

    return saw_pod


@asynccontextmanager
async def _following_heads(cluster: EmbeddedCluster, ray: str) -> AsyncGenerator[None]:
    announce = announcer(_say, ray)

    def saw_pod(key: str, pod: Pod | None) -> None:
        if pod is None or is_head(pod):
            announce(key, pod)

    running = asyncio.create_task(follow(cluster.server, PODS, saw_pod))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait((running,))


@asynccontextmanager
async def _page(watch: Watch, cluster: EmbeddedCluster, options: DevOptions) -> AsyncGenerator[str]:
    """Serve the web page; yield its address, which holds a password.

    Raises:
        ConfigurationError: the port is taken.
    """
    token = secrets.token_urlsafe(16)
    server = PageServer(
        options.page_port,
        read=watch.seen,
        client=cluster.client("manta-dev"),
        access=OwnerOnly(token),
        wall=wall,
        option="--page-port",
        direct=options.processes,
    )
    ready = asyncio.Event()
    serving = asyncio.create_task(server.run(ready.set))
    serving.add_done_callback(lambda _: ready.set())
    await ready.wait()
    if serving.done():
        raise ConfigurationError(str(serving.exception())) from serving.exception()
    try:
        yield f"http://dev:{token}@127.0.0.1:{server.port}/"
    finally:
        server.stop()
        await serving


def default_kubeconfig(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Default path of the kubeconfig of the `manta dev` of that name."""
    file = "kubeconfig" if name == DEFAULT_NAME else f"kubeconfig-{name}"
    return cache_dir(environment) / file


class DevOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `manta dev`, as its help explains them; without nodes, this machine is."""

    name: str | None = None
    port: int = 0
    page_port: int = 0
    kubeconfig: Path | None = None
    crds: Path | None = None
    operator: bool = True
    ray: bool = False
    images: Sequence[str] = ()
    isolation: IsolationOption = "auto"
    nodes: tuple[NodeShape, ...] = ()
    workspaces: bool = False
    log: bool = False
    log_level: LogLevel = "info"

    @property
    def processes(self) -> bool:
        """True if pods are processes of this machine; if not, they are simulated."""
        return self.ray or bool(self.images)


async def dev(options: DevOptions) -> int:
    """Run an embedded cluster until SIGINT or SIGTERM; returns the exit status.

    Raises:
        ConfigurationError: an option cannot be honoured; the message says why.
    """
    live = _is_live(options)
    if not live:
        as_text = "console" if sys.stderr.isatty() else "json"
        configure_logging(level=options.log_level, format=as_text)
    definitions = _definitions(options)
    stop = stop_on_signals()
    if not options.processes:
        _say("Pods are simulated; `manta dev --ray` runs them.")
    async with AsyncExitStack() as stack:
        run = stack.enter_context(closing(await asyncio.to_thread(_claim, options.name)))
        node = None
        if options.processes:
            images = await unless_stopped(stop, images_for(options.images, ray=options.ray))
            if images is None:
                return INTERRUPTED
            node = await stack.enter_async_context(process_node(images, options.isolation))
        cluster = await stack.enter_async_context(
            embedded_cluster(
                port=options.port,
                crds=definitions,
                nodes=NodeSettings(scheduling=True, shapes=options.nodes),
                process_node=node,
                claims=(lambda _claim: ClaimBehaviour()) if options.workspaces else None,
            )
        )
        kubeconfig = options.kubeconfig or default_kubeconfig(run.name)
        await stack.enter_async_context(_context(run, kubeconfig, cluster))
        if node:
            _say("\n".join(node.description))
            await stack.enter_async_context(_following_heads(cluster, node.ray))
        client = cluster.client("manta-dev")
        seen = Seen()
        with suppress(PathNotFound):  # --crds without Ray's kinds
            children = MODEL_CHILDREN if options.workspaces else ()
            seen = await read(client, [*KINDS, PODS, *children, EVENTS], "")
        watch = await stack.enter_async_context(watching(client, seen, ""))
        page = await stack.enter_async_context(_page(watch, cluster, options))
        greeting = _greeting(options, cluster.url, kubeconfig, page)
        if live:
            log = cache_dir() / f"{run.name}.log"
            stream = stack.enter_context(log.open("w"))
            configure_logging(level=options.log_level, format="console", stream=stream)
            await stack.enter_async_context(live_overview(watch, f"{greeting} Log: {log}\n"))
        else:
            _say(greeting)
        status = 0
        if options.operator:
            status = await _run_operator(cluster, options, stop)
        else:
            await stop.wait()
    _say("stopped")
    return status


def _is_live(options: DevOptions) -> bool:
    """Return whether to show a live screen: on a terminal that can, unless the log is asked for."""
    can = sys.stdout.isatty() and "NO_COLOR" not in os.environ and find_spec("rich") is not None
    return can and options.operator and not options.log


def _definitions(options: DevOptions) -> list[dict[str, Any]]:
    """Return the definitions to install.

    Raises:
        ConfigurationError: the file or folder cannot be read, or holds something else.
    """
    if options.crds is None:
        of_workspaces = kaito_definitions() if options.workspaces else []
        return [*custom_resource_definitions(), *of_workspaces]
    found = load(options.crds)
    for kind in (each["kind"] for each in found if each["kind"] != CRDS.kind):
        raise ConfigurationError(
            f"--crds {options.crds}: it holds a {kind}, and may hold only {CRDS.kind}s"
        )
    return found


def _claim(name: str | None) -> Run:
    """Claim a name, and print what killed runs had left behind and which others run."""
    records = cache_dir() / "runs"
    records.mkdir(mode=0o700, parents=True, exist_ok=True)
    for sentence in clean_up(records):
        _say(sentence)
    run = claim(records, name)
    for other in running(records, besides=run):
        _say(other.text())
    return run


@asynccontextmanager
async def _context(run: Run, kubeconfig: Path, cluster: EmbeddedCluster) -> AsyncGenerator[None]:
    """Keep a context for the cluster in the kubeconfig.

    Raises:
        ConfigurationError: the file cannot be changed.
    """
    run.record(url=cluster.url, kubeconfig=kubeconfig)
    previous = await asyncio.to_thread(
        run.context.add,
        kubeconfig,
        cluster=cluster.kubeconfig_cluster(),
        user=cluster.kubeconfig_user(),
    )
    if previous:
        _say(
            f"The current context of {kubeconfig} is {run.context.name} until this command ends; "
            f"then it is {previous} again."
        )
    try:
        yield
    finally:
        try:
            await asyncio.to_thread(run.context.remove, kubeconfig)
        except ConfigurationError as error:
            _say(f"context {run.context.name} is still there: {error}")


async def _run_operator(cluster: EmbeddedCluster, options: DevOptions, stop: asyncio.Event) -> int:
    settings = Settings(metrics_address="", health_address="")
    gates = FeatureGates({CLUSTER_FLEET: True, WORKSPACE: options.workspaces})
    async with operator_for(
        cluster.credentials(),
        settings,
        user_agent="manta-operator",
        kind_settings=KindSettings.from_environment(gates),
    ) as operator:
        return await operator.run(stop)


def _greeting(options: DevOptions, url: str, kubeconfig: Path, page: str) -> str:
    with_operator = "with the operator" if options.operator else "without an operator"
    kind = "workspace" if options.workspaces else "raycluster"
    return (
        f"An embedded Kubernetes API server listens at {url}, {with_operator}.\n"
        "In another terminal:\n\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        f"  kubectl apply -f examples/{kind}.yaml\n"
        f"  kubectl get {kind} -w\n\n"
        f"In a browser: {page}\n\n"
        "Press Ctrl-C to stop; nothing is kept."
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


_REDRAWN_AFTER: Final = 1.0
"""Seconds after which ages are shown anew."""
_MOST_OBJECTS: Final = 15


@asynccontextmanager
async def live_overview(watch: Watch, heading: str) -> AsyncGenerator[None]:
    """Show on the terminal what there is, below a heading; the last picture stays."""
    from rich.live import Live  # noqa: PLC0415  an extra

    with Live(heading, refresh_per_second=4) as live:

        async def show() -> None:
            while True:
                if (seen := await watch.change(_REDRAWN_AFTER)) is not None:
                    live.update(picture(seen, heading, wall()))

        showing = asyncio.create_task(show())
        try:
            yield
        finally:
            showing.cancel()
            with suppress(asyncio.CancelledError):
                await showing


def picture(seen: Seen, heading: str, now: datetime) -> Any:
    """Return the screen, for `rich`."""
    from rich.console import Group  # noqa: PLC0415  an extra
    from rich.text import Text  # noqa: PLC0415

    objects = overview(seen, None).objects
    shown = objects[:_MOST_OBJECTS]
    parts: list[Any] = [Text(heading)]
    if shown:
        states = [colour_of(each.state) for each in shown]
        rows = overview_rows(shown, now, all_of_them=True)
        parts.append(_table(rows, states, f"at {now:%H:%M:%S} UTC"))
    if left := len(objects) - len(shown):
        parts.append(Text(f"and {left} more; manta status -A shows all", style="dim"))
    if events := last_events(seen.events):
        oldest = duration(max(0.0, (now - events[0].time).total_seconds()))
        heads = ["AGE", "OBJECT", "REASON", "NOTE"]
        styles = ["yellow" if each.type == "Warning" else "" for each in events]
        title = f"last events, since {oldest} ago"
        parts.append(_table([heads, *event_rows(events, now)], styles, title))
    return Group(*parts)


def _table(rows: Sequence[Sequence[str]], styles: Sequence[str], title: str) -> Any:
    from rich.table import Table  # noqa: PLC0415  an extra
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title, box=None, title_justify="left", pad_edge=False, expand=True)
    for name in rows[0]:
        widest = name in {"CAUSE", "NOTE"}
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1 if widest else None)
    for row, style in zip(rows[1:], styles, strict=True):
        table.add_row(*(Text(cell, style=style) for cell in row))
    return table
