"""Helm, as a program."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from controller.command.takeover.options import CHART, RELEASE, ChangeFailed

if TYPE_CHECKING:
    from controller.command.takeover.options import ChangeOptions


class Helm:
    """Manta's release.

    Args:
        options: namespace, image, chart and credentials.
    """

    def __init__(self, options: ChangeOptions) -> None:
        self._options = options

    def require(self) -> None:
        """Check for the program and the chart; raises `ChangeFailed` if one is missing."""
        if shutil.which("helm") is None:
            raise ChangeFailed(
                "helm is not in the PATH; install it, or start and stop Manta yourself: "
                "--no-install, --no-uninstall",
                2,
            )
        chart = self._options.chart_path or CHART
        if not (chart / "Chart.yaml").is_file():
            raise ChangeFailed(f"{chart} is no chart; name Manta's with --chart", 2)

    async def is_installed(self) -> bool:
        """Return whether there is a release."""
        return await self._run("status", RELEASE, quiet=True) == 0

    async def install(self) -> None:
        """Install the chart and wait until the operator is ready; raises `ChangeFailed`."""
        image = self._options.image
        repository, tag = split_image(image)
        settings = [f"image.repository={repository}", f"image.tag={tag}"]
        settings += [
            f"imagePullSecrets[{number}].name={secret}"
            for number, secret in enumerate(self._options.pull_secrets)
        ]
        status = await self._run(
            "install", RELEASE, str(self._options.chart_path or CHART), "--skip-crds", "--wait",
            f"--timeout={self._options.timeout:.0f}s",
            *(word for each in settings for word in ("--set-string", each)),
        )  # fmt: skip
        if status:
            raise ChangeFailed("helm could not install Manta; its error is above")

    async def uninstall(self) -> None:
        """Remove the release and wait until the operator is gone; raises `ChangeFailed`."""
        if await self._run(
            "uninstall", RELEASE, "--wait", f"--timeout={self._options.timeout:.0f}s"
        ):
            raise ChangeFailed(
                "helm could not remove Manta; its error is above. Run: "
                f"helm -n {self._options.namespace} uninstall {RELEASE}"
            )

    async def _run(self, *arguments: str, quiet: bool = False) -> int:
        options = self._options
        where = ["--namespace", options.namespace]
        if options.kubeconfig:
            where += ["--kubeconfig", options.kubeconfig]
        if options.context:
            where += ["--kube-context", options.context]
        silent = asyncio.subprocess.DEVNULL if quiet else None
        # helm does not get ^C itself; this process ends it in order
        process = await asyncio.create_subprocess_exec(
            "helm", *arguments, *where, start_new_session=True, stdout=silent, stderr=silent
        )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise


def split_image(image: str) -> tuple[str, str]:
    """Return the repository and tag of an image; raises `ChangeFailed` without a tag.

    A digest is not split off: the chart puts a colon between the two, which a digest does not have.
    """
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag or "@" in repository:
        raise ChangeFailed(f"--image {image} has no tag; write it as REPOSITORY:TAG", 2)
    return repository, tag
