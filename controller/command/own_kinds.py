"""An operator of any kinds, with the options, signals, metrics and election of `manta run`."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from controller.command.cli.run import add_operator_options, settings_of
from controller.command.process import (
    run_operator,
    shift_level_on_signals,
    stop_on_signals,
    wall,
)
from controller.command.run.operator import connect
from controller.command.run.run import elected, lease_namespace, log_as
from controller.kube.errors import ConfigurationError
from controller.kube.http import limit_read_buffers
from controller.kube.kubeconfig import load_credentials
from controller.runtime.election import AlwaysLeader, ThreadedElection
from controller.runtime.kind import Kind
from controller.runtime.operator import Operator
from controller.runtime.settings import Settings


def run(kinds: Sequence[Kind[Any]], arguments: Sequence[str] | None = None) -> int:
    """Run an operator of these kinds until a signal; returns the exit status.

    The kubeconfig, or the pod's service account, and everything else is chosen by the options of
    `manta run`; `--help` lists them. In a pod one process of several works, elected by a lease that
    has the name of the first kind. Without arguments the command line is this process's own.
    """
    parser = argparse.ArgumentParser(description=f"Run {', '.join(each.name for each in kinds)}.")
    add_operator_options(parser)
    options = parser.parse_args(arguments)
    try:
        settings = settings_of(options)
        return run_operator(_run(kinds, settings, options.kubeconfig, options.context))
    except (ValueError, ConfigurationError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 2


async def _run(
    kinds: Sequence[Kind[Any]], settings: Settings, kubeconfig: str | None, context: str | None
) -> int:
    log_as(settings)
    limit_read_buffers()
    shift_level_on_signals()
    stop, name, registry = stop_on_signals(), kinds[0].name, CollectorRegistry()
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    election = AlwaysLeader()
    if settings.leader_election:
        election = elected(
            registry,
            namespace=lease_namespace(settings.leader_election_namespace),
            user_agent=name,
            kubeconfig=kubeconfig,
            context=context,
            name=name,
        )
    transport, client = connect(
        credentials, settings, user_agent=name, election=election, registry=registry
    )
    operator = Operator(
        client,
        kinds,
        settings,
        clock=asyncio.get_running_loop(),
        wall=wall,
        rng=random.Random(),
        registry=registry,
        election=election if isinstance(election, ThreadedElection) else None,
    )
    if isinstance(election, ThreadedElection):
        operator.health.add_readiness("leader election", election.standby_problem)
    try:
        return await operator.run(stop)
    finally:
        await transport.aclose()
