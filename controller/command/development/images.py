"""`--image NAME=PATH` and `--ray`: which environments stand for which images."""

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
"""What the environment of `--ray` stands for, with any tag."""


def parse_images(options: Sequence[str]) -> dict[str, Image]:
    """Environments by the name of the image that each stands for.

    Args:
        options: what was given with `--image`, each `NAME=PATH`.

    Raises:
        ConfigurationError: one of them cannot be used; the message says which and what to do.
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
    """Environments for all images that there are; with `ray`, one for Ray's in any case.

    Raises:
        ConfigurationError: one of them cannot be had; the message says why and what helps.
    """
    images = parse_images(options)
    if ray and RAY_IMAGE not in images:
        images[RAY_IMAGE] = await ray_image()
    return Images(images)


def ray_program(images: Images) -> str:
    """Ray's own program in the environment that stands for Ray's image; `ray` if none has it."""
    try:
        program = images.find(RAY_IMAGE).path / "bin" / "ray"
    except UnknownImage:
        return "ray"
    return str(program) if program.exists() else "ray"


async def ray_image() -> Image:
    """The environment with the Ray that Manta pins, made now if it is not there yet.

    Raises:
        ConfigurationError: it cannot be made; the message says why and what helps.
    """
    environment = ray_environment()
    progress = progress_for_people()
    try:
        await create_ray_environment(environment, progress)
    finally:
        progress.close()
    return Image(environment.folder, env=VARIABLES)
