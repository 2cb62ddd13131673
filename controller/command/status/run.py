"""The command `manta status`."""

from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from controller.command.connection import run_connected
from controller.command.output import CommandOutput
from controller.command.process import wall
from controller.command.status.objects import Tree
from controller.command.status.reading import KINDS, read, resources_of, watching
from controller.command.status.text import write_overview, write_tree
from controller.command.status.tree import overview, tree
from controller.command.targets import parse_kind, parse_target, suggestion
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import TextIO

    from controller.command.status.objects import Overview
    from controller.command.status.reading import Seen
    from controller.kube.client import Client
    from controller.kube.resources import Resource
    from controller.ray.api.names import RayObject


_REDRAWN_AFTER: Final = 10.0
"""Seconds after which a terminal shows the ages anew."""


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """The arguments of `manta status`.

    Attributes:
        target: `KIND/NAME`, its two words, `KIND`, or nothing.
        namespace: namespace of the objects; empty for that of the kubeconfig's context.
        all_namespaces: whether to show the objects of all namespaces.
        watch: whether to go on until interrupted.
        output: text for people or JSON for programs.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.
    """

    target: Sequence[str] = ()
    namespace: str = ""
    all_namespaces: bool = False
    watch: bool = False
    output: Literal["text", "json"] = "text"
    kubeconfig: str | None = None
    context: str | None = None


async def status(options: StatusOptions) -> int:
    """Print what there is; returns the exit status.

    Raises:
        ConfigurationError: no usable credentials, or the arguments name no object.
    """
    for name in ("informers", "controller"):  # what is wrong stands in the output
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return await run_connected(
        "status",
        options,
        lambda client, namespace: status_with(client, options, namespace, sys.stdout, wall),
    )


async def status_with(
    client: Client,
    options: StatusOptions,
    namespace: str,
    stream: TextIO,
    clock: Callable[[], datetime],
) -> int:
    """Print what there is with a client; `namespace` is that of objects without one.

    Raises:
        ConfigurationError: the arguments name no object.
        KubeError: the API server could not be reached, or a watch was refused.
    """
    view = _View(options, namespace, stream, clock)
    seen = await read(client, view.resources, view.namespace)
    if not view.shows(seen):
        return 1
    if options.watch:
        async with watching(client, seen, view.namespace) as watch:
            while True:
                now = await watch.change(_REDRAWN_AFTER)
                if now is not None and not view.shows(now):
                    return 0
    return 1 if seen.missing else 0


class _View:
    """Prints what the options ask for, when it is not what was printed last."""

    def __init__(
        self,
        options: StatusOptions,
        namespace: str,
        stream: TextIO,
        clock: Callable[[], datetime],
    ) -> None:
        words, self._name = options.target, ""
        self._kind: Resource[Any] | None = None
        if len(words) == 1 and "/" not in words[0]:
            self._kind = parse_kind(words[0], KINDS, "shown")
        elif words:
            self._kind, self._name = parse_target(words, KINDS, "shown")
        if self._name and options.all_namespaces:
            raise ConfigurationError("-A shows all objects; name one without it, with -n")
        self.namespace = (
            "" if options.all_namespaces else options.namespace or namespace or "default"
        )
        named = self._kind if self._name else None
        self.resources = resources_of(named) if named is not None else [*KINDS]
        self._options, self._stream, self._clock = options, stream, clock
        self._output = CommandOutput(stream, as_json=options.output == "json")
        self._shown: Tree | Overview | None = None

    def shows(self, seen: Seen) -> bool:
        """Print what was read; return False if the named object does not exist."""
        found = overview(seen, self._kind) if not self._name else self._tree(seen)
        if found is None:
            return False
        terminal = self._stream.isatty()
        if found == self._shown and not terminal:
            return True
        if self._options.watch and terminal and self._options.output == "text":
            self._stream.write("\x1b[H\x1b[2J")
        elif self._shown is not None and self._options.output == "text":
            self._stream.write("\n")
        if found.missing and (self._shown is None or found.missing != self._shown.missing):
            sys.stderr.writelines(f"manta status: {each}\n" for each in found.missing)
        self._shown = found
        self._print(found, width=shutil.get_terminal_size().columns if terminal else None)
        return True

    def _print(self, found: Tree | Overview, *, width: int | None) -> None:
        now = self._clock()
        if self._options.output == "json":
            self._output.document(found, in_one_line=self._options.watch)
        elif isinstance(found, Tree):
            write_tree(found, self._output, now)
        else:
            write_overview(found, self._output, now, width=width, namespace=self.namespace)

    def _tree(self, seen: Seen) -> Tree | None:
        """Return the tree of the named object; None, with a word to the user, without it."""
        assert self._kind is not None
        objects = seen.objects.get(self._kind, [])
        for obj in objects:
            if obj.metadata.name == self._name:
                return tree(seen, self._kind, obj, self._clock())
        sys.stderr.writelines(f"manta status: {each}\n" for each in seen.missing)
        sys.stderr.write(f"manta status: {self._not_there(objects)}\n")
        return None

    def _not_there(self, objects: Sequence[RayObject]) -> str:
        assert self._kind is not None
        name = f"{self._kind.kind.lower()}/{self._name}"
        near = suggestion(self._name, [each.metadata.name for each in objects])
        if isinstance(self._shown, Tree):
            return f"{name} is gone"
        return f"{name} does not exist in namespace {self.namespace}; -n chooses another one{near}"
