"""Images: names of container images, and the local environments that stand for them.

There are no container images on this machine. `--image NAME=PATH` makes containers of image
NAME use the programs in PATH, the folder of a Python environment; everything else they share
with the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Image(Struct, frozen=True):
    """A local environment used in place of an image.

    Attributes:
        command: its arguments when a container has neither command nor arguments.
    """

    path: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    command: tuple[str, ...] = ("python3",)

    @property
    def variables(self) -> dict[str, str]:
        """The variables with which a container's environment begins."""
        programs = self.path / "bin"
        return {
            "PATH": f"{programs}:{SYSTEM_PATH}",
            "VIRTUAL_ENV": str(self.path),
            "HOME": "/tmp",  # noqa: S108  a container has its own
            "LANG": "C.UTF-8",
            **self.env,
        }


class UnknownImage(Exception):  # noqa: N818  the kubelet's words for it are ErrImagePull
    """There is no environment for an image. The message names the remedy."""


class Images:
    """Finds the environment of an image by its name.

    Args:
        known: by name, as in `--image NAME=PATH`: with or without registry, tag or digest. A name
            without a tag stands for every tag.
    """

    def __init__(self, known: Mapping[str, Image]) -> None:
        self._known = dict(known)

    def add(self, name: str, image: Image) -> None:
        """Make an environment stand for an image, unless one does already."""
        self._known.setdefault(name, image)

    def find(self, image: str) -> Image:
        """Return the environment for `image`.

        Raises:
            UnknownImage: there is none.
        """
        for name in _names(image):
            if name in self._known:
                return self._known[name]
        repository = _names(image)[-1]
        raise UnknownImage(
            f'no environment stands for image "{image}" on this machine; start again with '
            f"--image {repository}=PATH, the folder of a Python environment"
        )


def _names(image: str) -> list[str]:
    """Return all names of `image`, the most exact one first."""
    bare = image.partition("@")[0]
    head, slash, last = bare.rpartition("/")
    repository = head + slash + last.partition(":")[0]
    names = [image, bare, repository]
    first, slash, rest = repository.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        names.append(rest)
        names.append(rest.removeprefix("library/"))
    return list(dict.fromkeys(names))
