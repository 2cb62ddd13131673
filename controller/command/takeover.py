"""The steps of a take-over and a hand-back. If a step fails, the earlier operator runs again."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stdout
from typing import Literal

from msgspec import Struct

import controller
from controller.command.connection import CommandFailed, connected, with_remedy
from controller.command.kinds import KindSettings
from controller.command.operator_deployments import (
    BEFORE,
    DEPLOYMENTS,
    RELEASE,
    ChangeOptions,
    Deployment,
    Helm,
    check_image,
    kuberay,
    scale,
    split_image,
    wait_until_available,
    wait_until_gone,
)
from controller.command.output import CommandOutput
from controller.command.planning import PlanRequest, plan
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError, KubeError
from controller.ray.api import FeatureGates

USER_AGENT = f"manta-take-over/{controller.__version__}"
_LABELS = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/name=manta-operator"


class Tools(Struct, frozen=True):
    """What the steps use: `plan` returns the exit status of `manta plan`."""

    client: Client
    plan: Callable[[], Awaitable[int]]
    helm: Helm


async def take_over_with(options: ChangeOptions, tools: Tools) -> None:
    """Perform the steps of a take-over.

    Raises:
        CommandFailed: KubeRay is in charge as before.
    """
    if options.chart:
        await _require_chart(options, tools)
    theirs = await kuberay(tools.client, options.namespace, options.deployment)
    _say("1. Would Manta delete or replace anything?")
    await _require_plan(tools)
    if options.chart:
        _say(f"2. Can {options.image} start?")
        await check_image(tools.client, options)
    _say("3. Stop KubeRay's operator")
    async with _put_back(tools.client, theirs, theirs.spec.replicas):
        await scale(tools.client, theirs, 0, before=theirs.spec.replicas)
        await wait_until_gone(tools.client, theirs, options.timeout)
        _say("4. The same question as in 1, now that no other operator writes")
        await _require_plan_again(tools)
        if options.chart:
            _say("5. Install Manta (existing definitions stay)")
            await _install(tools)
    if not options.chart:
        sys.stdout.write("KubeRay's operator is stopped. Start Manta now: manta run\n")


async def hand_back_with(options: ChangeOptions, tools: Tools) -> None:
    """Perform the steps of a hand-back.

    Raises:
        CommandFailed: Manta is in charge as before; if it was not installed from the chart, no
            operator is, and the message says what to do.
    """
    theirs = await kuberay(tools.client, options.namespace, options.deployment)
    before = (theirs.metadata.annotations or {}).get(BEFORE, "")
    wanted = int(before) if before.isdigit() and int(before) else 1
    if not options.chart:
        _say("1. Start KubeRay's operator")
        await scale(tools.client, theirs, wanted)
        try:
            await wait_until_available(tools.client, theirs, options.timeout)
        except CommandFailed as error:
            undo = f"kubectl -n {options.namespace} scale deployment {options.deployment}"
            raise CommandFailed(
                f"{error}. No operator serves the clusters until it runs; it keeps its {wanted} "
                f"replicas. To go back to Manta, run {undo} --replicas=0 and start Manta again"
            ) from error
        return
    ours = await _manta(tools.client, options.namespace)
    _say("1. Stop Manta")
    async with _put_back(tools.client, ours, ours.spec.replicas):
        await scale(tools.client, ours, 0)
        await wait_until_gone(tools.client, ours, options.timeout)
        _say("2. Start KubeRay's operator")
        async with _put_back(tools.client, theirs, 0):
            await scale(tools.client, theirs, wanted)
            await wait_until_available(tools.client, theirs, options.timeout)
    _say("3. Remove Manta")
    await tools.helm.uninstall()


@asynccontextmanager
async def _put_back(client: Client, found: Deployment, replicas: int) -> AsyncGenerator[None]:
    """Scale a Deployment back if anything fails inside, ^C included."""
    try:
        yield
    except BaseException as error:
        name, namespace = found.metadata.name, found.metadata.namespace
        try:
            await scale(client, found, replicas)
        except KubeError as refused:
            why = str(error) or "interrupted"
            raise CommandFailed(
                f"{why}; and {name} could not be put back: {refused}. No operator serves the "
                f"clusters now. Run: kubectl -n {namespace} scale deployment {name} "
                f"--replicas={replicas}"
            ) from error
        if replicas:
            sys.stderr.write(f"{name} is scaled to {replicas} again\n")
        raise


async def _install(tools: Tools) -> None:
    """Install Manta; a release that does not become ready is removed again."""
    try:
        await tools.helm.install()
    except BaseException:
        await tools.helm.uninstall()
        raise


async def _require_plan(tools: Tools) -> None:
    status = await tools.plan()
    if status:
        raise CommandFailed("the plan above names the obstacles; correct them first", status)


async def _require_plan_again(tools: Tools) -> None:
    """Plan once more, and print the plan only if it names an obstacle."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            await _require_plan(tools)
    except CommandFailed:
        sys.stdout.write(printed.getvalue())
        raise
    sys.stdout.write("still nothing\n")


async def _require_chart(options: ChangeOptions, tools: Tools) -> None:
    if not options.image:
        raise CommandFailed(
            "name Manta's image with --image, or start it yourself: --no-install", 2
        )
    split_image(options.image)
    tools.helm.require()
    if await tools.helm.is_installed():
        raise CommandFailed(
            f"there is a Helm release {RELEASE} in namespace {options.namespace} already; two "
            f"operators must not run: helm -n {options.namespace} uninstall {RELEASE}"
        )


async def _manta(client: Client, namespace: str) -> Deployment:
    found = await client.list(DEPLOYMENTS, namespace, label_selector=_LABELS)
    if not found.items:
        raise CommandFailed(
            f"Manta's chart is not installed in namespace {namespace}; if Manta runs elsewhere, "
            "stop it and add --no-uninstall"
        )
    return found.items[0]


async def change_operators(
    command: Literal["take-over", "hand-back"], options: ChangeOptions
) -> int:
    """Perform the steps of a command with real tools; returns the exit status."""
    steps = take_over_with if command == "take-over" else hand_back_with
    out = sys.stdout
    failure, status = "", 0
    with redirect_stdout(sys.stderr if options.output == "json" else out):
        try:
            opened = connected(USER_AGENT, kubeconfig=options.kubeconfig, context=options.context)
            async with opened as (client, _):
                await steps(options, Tools(client, lambda: _plan(options), Helm(options)))
        except CommandFailed as error:
            failure, status = str(error), error.status
        except ConfigurationError as error:
            failure, status = str(error), 2
        except KubeError as error:
            failure, status = f"a request failed: {with_remedy(error)}", 1
    if options.output == "json":
        summary = {
            "command": command, "namespace": options.namespace, "deployment": options.deployment,
            "image": options.image, "done": not failure, "error": failure,
        }  # fmt: skip
        CommandOutput(out, as_json=True).document(summary)
    if failure:
        sys.stderr.write(f"manta {command}: {failure}\n")
    return status


async def _plan(options: ChangeOptions) -> int:
    settings = KindSettings.from_environment(FeatureGates())
    return await plan(
        PlanRequest(
            settings,
            forbid=("delete", "replace"),
            kubeconfig=options.kubeconfig,
            context=options.context,
        )
    )


def _say(step: str) -> None:
    sys.stdout.write(f"== {step}\n")
    sys.stdout.flush()
