"""`make lab [CORES=1] [ONLY=kubernetes]`: build the programs that are not in the cache yet."""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.lab.programs import ASSETS, MODULES, Module

QUIET_SECONDS = 15.0
"""Seconds between two lines of progress where they cannot overwrite each other."""

NO_GO = f"""\
make lab: there is no `go` on this machine. The lab's programs (a Kubernetes control plane and what
runs beside it) are built from Go modules: install Go 1.26 or newer, or name a folder with etcd,
kube-apiserver and kube-controller-manager in {ASSETS}.
"""


class BuildError(Exception):
    """The Go command failed; its output has been printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__)
    parser.add_argument("--cores", type=int, help="build with so many at most (default: all)")
    names = [module.name for module in MODULES]
    parser.add_argument(
        "only", nargs="*", metavar="MODULE", help=f"{', '.join(names)} (default: all)"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.only).difference(names):
        parser.error(f"no such module: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    modules = [module for module in MODULES if module.name in (options.only or names)]
    try:
        built = build(options.cores, modules)
    except BuildError as failure:
        sys.stderr.write(f"make lab: {failure}\n")
        return 1
    if built is None:
        sys.stderr.write(NO_GO)
        return 1
    for module in modules:
        sys.stdout.write(f"{', '.join(module.packages)}: {module.folder}\n")
    return 0


def build(cores: int | None = None, modules: Sequence[Module] = MODULES) -> int | None:
    """Build what these modules lack; returns the number of programs, None if there is no Go."""
    if not any(module.missing() for module in modules):
        return 0
    if not shutil.which("go"):
        return None
    built = 0
    for module in modules:
        module.folder.mkdir(parents=True, exist_ok=True)
        with module.folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another checkout may build the same
            missing = module.missing()
            if missing:
                _keep_manifests(module)
            for name in missing:
                _build(module, name, cores)
                built += 1
    return built


def _keep_manifests(module: Module) -> None:
    for name, (required, folder) in module.manifests.items():
        listed = _go(module, "mod", "download", "-json", required)
        [found] = re.findall(r'"Dir": "(.*)"', listed)
        kept = module.folder / name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(Path(found, folder), kept, copy_function=shutil.copyfile)
        for each in (kept, *kept.rglob("*/")):  # Go keeps them read-only
            each.chmod(0o755)


def _go(module: Module, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=module.source, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"go {' '.join(arguments)} failed in {module.source}:\n{done.stdout}")
    return done.stdout


def _build(module: Module, name: str, cores: int | None) -> None:
    made = module.folder / f"{name}.new"
    command = ["go", "build", "-v", "-trimpath", f"-ldflags={module.link_flags()}", f"-o={made}"]
    limits = {"GOMAXPROCS": str(cores)} if cores else {}
    process = subprocess.Popen(
        [*command, *([f"-p={cores}"] if cores else []), module.packages[name]],
        cwd=module.source,
        env=os.environ | limits | {"CGO_ENABLED": "0"},
        stderr=subprocess.PIPE,
        text=True,
    )
    progress, said = _Progress(name), list[str]()
    assert process.stderr is not None
    for line in process.stderr:
        if re.fullmatch(r"[\w.~/-]+\n", line) or line.startswith("go: downloading"):
            progress.advance(line.strip())
        else:
            said.append(line)
    if process.wait():
        raise BuildError(f"{name} could not be built:\n{''.join(said)}")
    made.rename(module.folder / name)
    progress.end()


class _Progress:
    """Prints how far a build is: one line that changes on a terminal, else a line now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = self._printed = time.monotonic()
        self._packages = 0
        self._changes = sys.stderr.isatty()
        self._print("building" if self._changes else "building ...")

    def advance(self, package: str) -> None:
        self._packages += not package.startswith("go: ")
        pause = 0.2 if self._changes else QUIET_SECONDS
        if time.monotonic() - self._printed > pause:
            self._print(f"{self._packages} packages compiled, {package.removeprefix('go: ')}")

    def end(self) -> None:
        self._print(f"built, {self._packages} packages compiled")
        if self._changes:
            sys.stderr.write("\n")

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        line = f"{self._name:<24} {self._printed - self._began:5.0f} s  {text}"
        sys.stderr.write(f"\r\033[K{line[:100]}" if self._changes else f"{line}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
