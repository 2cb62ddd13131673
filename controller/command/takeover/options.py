"""Options and errors of a change of operators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

RELEASE = "manta"
"""Name of the Helm release."""

CHART = Path(__file__).parents[3] / "charts" / "manta-operator"
"""The chart of a checkout."""


class ChangeFailed(Exception):  # noqa: N818  the operators did not change
    """The operators were not changed; the message says why and what to do next.

    Args:
        message: for the user.
        status: exit status of the command.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of `manta take-over` and `manta hand-back`.

    Attributes:
        namespace: namespace of both operators.
        deployment: name of KubeRay's operator.
        chart: whether Manta is installed and removed with its chart; if not, the user starts and
            stops it.
        image: Manta's image; needed to install.
        pull_secrets: names of Secrets for pulling it.
        chart_path: the chart; None for that of the checkout.
        timeout: seconds that each step may take.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.
        output: `json` prints a summary on standard output and everything else on standard error.
    """

    namespace: str
    deployment: str
    chart: bool = True
    image: str = ""
    pull_secrets: tuple[str, ...] = ()
    chart_path: Path | None = None
    timeout: float = 120.0
    kubeconfig: str | None = None
    context: str | None = None
    output: Literal["text", "json"] = "text"
