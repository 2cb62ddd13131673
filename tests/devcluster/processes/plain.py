"""The simplest pod sandboxes: ordinary processes, with mount paths replaced in commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.processes.pod_sandbox import ContainerConfig, Launch, Mode, Mount

_SCRIPT = 'echo $$ >>"$PIDS"; cd "$DIR" && exec "$@"'


class PlainRoom:
    def __init__(self, root: Path, cwd: str, env: Mapping[str, str], mounts: Sequence[Mount]):
        self.root = root
        self._cwd = self._replaced(cwd or str(root), mounts)
        self._mounts = mounts
        self._env = {name: self._replaced(value, mounts) for name, value in env.items()}
        self._missing = ""

    def command(self, argv: Sequence[str]) -> Launch:
        words = [self._replaced(word, self._mounts) for word in argv]
        if shutil.which(words[0], path=self._env.get("PATH", os.defpath)) is None:
            self._missing = f"{words[0]}: not found"
        env = self._env | {"PIDS": str(self.root / "pids"), "DIR": self._cwd}
        argv = ("/bin/sh", "-c", _SCRIPT, "sh", *words)
        return Launch(argv, env, self.root, signal.SIGKILL)

    exec = command

    def start_error(self) -> str:
        return self._missing

    async def close(self) -> None:
        pids = self.root / "pids"
        for pid in pids.read_text().split() if pids.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)
        shutil.rmtree(self.root)

    @staticmethod
    def _replaced(word: str, mounts: Sequence[Mount]) -> str:
        for mount in mounts:
            word = word.replace(mount.target, str(mount.source))
        return word


@dataclass
class PlainSandbox:
    root: Path
    ip: str = "127.0.0.1"
    container_dirs: int = 0

    def create_container_dir(self, config: ContainerConfig) -> PlainRoom:
        self.container_dirs += 1
        root = self.root / f"c.{self.container_dirs}"
        root.mkdir()
        return PlainRoom(root, config.cwd, config.env, config.mounts)


@dataclass
class PlainIsolation:
    root: Path
    mode: Mode = "shim"
    description: str = "for tests"
    host_ip: str = "127.0.0.1"
    sandboxes: dict[str, PlainSandbox] = field(default_factory=dict)
    refusals: list[OSError] = field(default_factory=list)

    async def open_pod(self, uid: str, **_: Any) -> PlainSandbox:
        if self.refusals:
            raise self.refusals.pop(0)
        if uid not in self.sandboxes:
            root = self.root / uid
            root.mkdir()
            self.sandboxes[uid] = PlainSandbox(root)
        return self.sandboxes[uid]

    async def close_pod(self, sandbox: PlainSandbox) -> None:
        for uid in [uid for uid, one in self.sandboxes.items() if one is sandbox]:
            del self.sandboxes[uid]
        shutil.rmtree(sandbox.root)

    async def aclose(self) -> None:
        for sandbox in list(self.sandboxes.values()):
            await self.close_pod(sandbox)
