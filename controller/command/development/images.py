"""`--image NAME=PATH` and `--ray`: local environments used in place of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from controller.command.development.rayenv import VARIABLES, create_ray_environment, ray_environment
from controller.command.development.rayenv.progress import progress_for_people
from controller.devcluster.processes.images import Image, Images, UnknownImage
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

RAY_IMAGE = "rayproject/ray"
"""The image that the environment of `--ray` replaces, whatever its tag."""


def parse_images(options: Sequence[str]) -> dict[str, Image]:
    """Return environments by the name of the image that each replaces.

    Args:
        options: what was given with `--image`, each `NAME=PATH`.

    Raises:
        ConfigurationError: one of them cannot be used; the message says which, and what to do.
    """
    images: dict[str, Image] = {}
    for option in options:
        name, _, path = option.rpartition("=")
        if not name or not path:
            raise ConfigurationError(
                f"--image {option}: write NAME=PATH, the name of an image and the folder of a "
                f"virtual environment that stands for it, as in {RAY_IMAGE}=/home/me/venv"
            )
        if name in images:
            raise ConfigurationError(f"--image {option}: {name} has another environment already")
        images[name] = Image(_environment(option, path), env=VARIABLES)
    return images


def _environment(option: str, path: str) -> Path:
    folder = Path(path).expanduser().absolute()
    if not (folder / "bin").is_dir():
        what = "has no folder bin" if folder.is_dir() else "is not a folder"
        raise ConfigurationError(
            f"--image {option}: {folder} {what}; give the folder of a virtual environment "
            "(python3 -m venv FOLDER makes one)"
        )
    return folder


async def images_for(options: Sequence[str], *, ray: bool) -> Images:
    """Return environments for the given images; with `ray`, always one for Ray's image.

    Raises:
        ConfigurationError: one of them is not available; the message says why and names a remedy.
    """
    images = parse_images(options)
    if ray and RAY_IMAGE not in images:
        images[RAY_IMAGE] = await ray_image()
    return Images(images)


def ray_program(images: Images) -> str:
    """Return the path of `ray` in the environment for Ray's image; `ray` if there is none."""
    try:
        program = images.find(RAY_IMAGE).path / "bin" / "ray"
    except UnknownImage:
        return "ray"
    return str(program) if program.exists() else "ray"


async def ray_image() -> Image:
    """Return the environment with the Ray version that Manta pins, created if it does not exist.

    Raises:
        ConfigurationError: it cannot be created; the message says why and names a remedy.
    """
    environment = ray_environment()
    progress = progress_for_people()
    try:
        await create_ray_environment(environment, progress)
    finally:
        progress.close()
    return Image(environment.folder, env=VARIABLES)
