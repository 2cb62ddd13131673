"""`manta run --check`: checks whether the operator could start here."""

from __future__ import annotations

import asyncio
import sys

import controller
from controller.command.remedies import with_remedy
from controller.kube.authentication.load import load_credentials
from controller.kube.client import Client
from controller.kube.errors import KubeError
from controller.kube.http import HttpTransport

USER_AGENT = f"manta-check/{controller.__version__}"


async def check(*, kubeconfig: str | None, context: str | None) -> int:
    """Print whether the API server can be reached; returns the exit status.

    Args:
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.

    Raises:
        ConfigurationError: no usable credentials.
    """
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    transport = HttpTransport(credentials, user_agent=USER_AGENT)
    client = Client(transport, user_agent=USER_AGENT, clock=asyncio.get_running_loop())
    try:
        version = await client.request_json("GET", "/version")
    except KubeError as error:
        sys.stderr.write(f"manta: the operator could not start here: {with_remedy(error)}\n")
        return 1
    finally:
        await transport.aclose()
    told = version.get("gitVersion", "of unknown version")
    sys.stdout.write(f"manta {controller.__version__} can start; the API server is {told}\n")
    return 0
