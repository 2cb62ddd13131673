"""Carries out the Dockerfile without a container tool: each stage in a root folder of its own.

The base image is this machine: its system folders and its Python are mounted in, and the stage's
own files lie beside them. It needs root, for mounts and for another user.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "sbin", "usr")
_KEPT = re.compile(r"PIP_|SSL_CERT|(HTTPS?|NO|ALL)_PROXY", re.IGNORECASE)
"""Variables by which this machine reaches packages."""


def images_can_be_built() -> bool:
    """Whether this process may mount and change its user."""
    return os.geteuid() == 0 and all(map(shutil.which, ("unshare", "chroot", "setpriv")))


@dataclass
class Stage:
    """One stage, and the image that it becomes.

    Attributes:
        environment: of the commands that run in it.
        entrypoint: what is run in a container, without arguments.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)

    def command(self, *words: str, read_only: bool = False, **variables: str) -> list[str]:
        """The words as a command in this root, for `subprocess`."""
        user, group = self.user.split(":")
        path = f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": "/", **self.environment, **variables}
        environment["PATH"] = environment["PATH"].replace("$PATH", path)
        inside = [
            *("chroot", str(self.root), "env", "-i"),
            *(f"{name}={value}" for name, value in environment.items()),
            *("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"),
            *(["--no-new-privs", "--bounding-set=-all"] if read_only else []),
            *("sh", "-c", 'cd "$0" && exec "$@"', self.folder, *words),
        ]
        script = "\n".join([*self._mounts(read_only=read_only), shlex.join(["exec", *inside])])
        return ["unshare", "--mount", "sh", "-ec", script]

    def _mounts(self, *, read_only: bool) -> list[str]:
        lines = ["mount --make-rprivate /", f"mount --bind {self.root} {self.root}"]
        if read_only:
            lines.append(f"mount -o remount,ro,bind {self.root}")
        system = [Path("/", name) for name in _SYSTEM if Path("/", name).is_dir()]
        base = Path(sys.base_prefix).resolve()
        folders = [each for each in system if not each.is_symlink()]
        for each in (base, *_named_paths()):
            if not any(each.is_relative_to(known) for known in folders):
                folders.append(each)
        for each in folders:
            lines += [f"mount --bind {each} {self.root}{each}"]
            lines += [f"mount -o remount,ro,bind {self.root}{each}"]
        return [*lines, *(f"mount --rbind /{name} {self.root}/{name}" for name in ("proc", "dev"))]

    def prepare(self) -> None:
        """Make the places where the base is mounted."""
        self.root.mkdir()
        for name in (*_SYSTEM, "proc", "dev"):
            source, place = Path("/", name), self.root / name
            if source.is_symlink():
                place.symlink_to(source.readlink())
            elif source.is_dir():
                place.mkdir(parents=True)
        for each in (Path(sys.base_prefix).resolve(), *_named_paths()):
            place = self.root / str(each)[1:]
            (place if each.is_dir() else place.parent).mkdir(parents=True, exist_ok=True)
            if each.is_file() and not place.exists():
                place.touch()
        (self.root / "tmp").mkdir(mode=0o777)


def _kept() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if _KEPT.match(name)}


def _named_paths() -> list[Path]:
    """Certificates and packages of this machine that the variables name."""
    found = (Path(value) for value in _kept().values() if value.startswith("/"))
    system = tuple(f"/{name}/" for name in _SYSTEM)
    return [each for each in found if each.exists() and not str(each).startswith(system)]


def build(folder: Path) -> Stage:
    """Carry out the Dockerfile; the last stage."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for instruction, rest in _instructions():
        if instruction == "FROM":
            name = rest.rpartition(" AS ")[2] if " AS " in rest else str(len(stages))
            stage = stages[name] = Stage(folder / f"stage-{len(stages)}")
            stage.prepare()
        elif instruction != "ARG":
            assert stage is not None
            _carry_out(instruction, rest, stage, stages)
    assert stage is not None
    return stage


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines if line]


def _carry_out(instruction: str, rest: str, stage: Stage, stages: dict[str, Stage]) -> None:
    match instruction:
        case "WORKDIR":
            stage.folder = rest
            (stage.root / rest[1:]).mkdir(parents=True)
        case "RUN":
            done = subprocess.run(
                stage.command("sh", "-ec", rest, **_kept()),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"RUN {rest}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        case "COPY":
            _copy(rest, stage, stages)
        case "ENV":
            stage.environment |= dict(each.split("=", 1) for each in shlex.split(rest))
        case "USER":
            stage.user = rest
        case "ENTRYPOINT":
            stage.entrypoint = [each.strip(' "') for each in rest.strip("[]").split(",")]
        case _:
            assert instruction in {"LABEL", "EXPOSE", "CMD"}, instruction


def _copy(rest: str, stage: Stage, stages: dict[str, Stage]) -> None:
    *names, target = rest.split()
    place = stage.root / target[1:] if target.startswith("/") else None
    if names[0].startswith("--from="):
        source = stages[names[0].partition("=")[2]].root / names[1][1:]
        assert place is not None
        shutil.copytree(source, place, symlinks=True)
        return
    place = place or stage.root / stage.folder[1:] / target
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place, ignore=_is_ignored)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)


def _is_ignored(folder: str, names: list[str]) -> set[str]:
    """The names that `.dockerignore` leaves out of a folder."""
    patterns = [
        line.removeprefix("**/")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if (line and line[0] not in "!*") or line.startswith("**/")
    ]
    place = Path(folder).relative_to(ROOT)
    return {
        name
        for name in names
        if any(fnmatch(str(place / name), each) or fnmatch(name, each) for each in patterns)
    }
