"""`manta diagnose`: what a bug report needs, in one archive, without secrets."""

from __future__ import annotations

import asyncio
import io
import os
import platform
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

import controller
from controller.apimachinery.custom_object import dig, mapping, mappings
from controller.command.connection import CommandFailed, ConnectionOptions
from controller.command.debug import page_of
from controller.command.operator_deployments import DEPLOYMENTS
from controller.command.output import Redaction, parse_target
from controller.command.status.reading import KINDS, MODEL_KINDS
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError, Forbidden, KubeError, PathNotFound
from controller.kube.resources import (
    CRDS,
    EVENTS,
    INGRESSES,
    JOBS,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

Json = dict[str, Any]

_CHILDREN: Final[tuple[Resource[Any], ...]] = (PODS, SERVICES, JOBS, INGRESSES, NETWORK_POLICIES)
_OPERATORS: Final = "app.kubernetes.io/name in (manta-operator,kuberay-operator)"
_GROUPS: Final = frozenset(each.group for each in KINDS)
_LINES: Final = "20000"
"""Lines of the operator's log, from its end."""


class DiagnoseOptions(ConnectionOptions, frozen=True):
    """The arguments of `manta diagnose`.

    The target is `KIND/NAME` or its two words; nothing for all of the namespace. The archive has
    a name with the time if none is given.
    """

    target: Sequence[str] = ()
    all_namespaces: bool = False
    file: Path | None = None
    port: int = 6060


async def diagnose(
    client: Client, namespace: str, options: DiagnoseOptions, clock: Callable[[], datetime]
) -> int:
    """Write the archive; returns the exit status.

    Raises:
        ConfigurationError: the arguments name no object, or the file cannot be written.
        KubeError: the API server could not be reached, or has no RayClusters.
    """
    file = options.file or Path(f"manta-diagnose-{clock():%Y%m%d-%H%M%S}.tar.gz")
    if file.exists():
        raise ConfigurationError(f"{file} exists; name another file with -f")
    target = parse_target(options.target, KINDS, "diagnosed") if options.target else None
    if target and options.all_namespaces:
        raise ConfigurationError("-A collects all objects; name one without it, with -n")
    place = "" if options.all_namespaces else namespace
    report = _Report(client)
    _progress(f"objects of Ray in {place or 'all namespaces'}")
    if not await report.objects(place, target):
        assert target is not None
        kind = target[0].kind.lower()
        raise CommandFailed(
            f"{kind}/{target[1]} does not exist in namespace {place}; -n chooses another one, and "
            "without a name all of it is collected"
        )
    _progress("the operator: configuration, log, metrics")
    await report.operators()
    _progress(f"the debug page at port {options.port} of this machine")
    await report.debug_page(options.port)
    await report.versions()
    size = await asyncio.to_thread(report.write, file, clock())
    sys.stdout.write(f"{report.summary(file, size)}\n")
    return 0


def _progress(text: str) -> None:
    sys.stderr.write(f"collecting {text} ...\n")


@dataclass
class _Report:
    client: Client
    redaction: Redaction = field(default_factory=Redaction)
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    counts: Counter[str] = field(default_factory=Counter[str])
    missing: list[str] = field(default_factory=list[str])

    async def objects(self, namespace: str, target: tuple[Resource[Any], str] | None) -> bool:
        """Collect the objects of Ray, their children and events; False if the one is not there.

        Raises:
            KubeError: the API server could not be reached, or has no RayClusters.
        """
        lists = [await self._list(each, namespace, first=each is KINDS[0]) for each in KINDS]
        has_models = any(lists[KINDS.index(each)] for each in MODEL_KINDS)
        children = (*_CHILDREN, STATEFUL_SETS) if has_models else _CHILDREN
        lists += [await self._list(each, namespace) for each in children]
        found = {_uid(each): each for items in lists for each in items}
        roots = {_uid(each) for items in lists[: len(KINDS)] for each in items}
        if target:
            of_kind = lists[KINDS.index(target[0])]
            roots = {_uid(each) for each in of_kind if each["metadata"]["name"] == target[1]}
            if not roots:
                return False
        members = _with_descendants(roots, found)
        for resource, items in zip((*KINDS, *children), lists, strict=True):
            mine = [each for each in items if _uid(each) in members]
            self._keep_objects(f"objects/{resource.plural}.yaml", resource.plural, mine)
        events = await self._list(EVENTS, namespace)
        about = [each for each in events if dig(each, "regarding", "uid") in members]
        about.sort(
            key=lambda each: str(each.get("eventTime") or each["metadata"]["creationTimestamp"])
        )
        self._keep_objects("objects/events.yaml", "events", about)
        return True

    async def operators(self) -> None:
        """Collect configuration, logs and metrics of the operators that the cluster runs."""
        for resource in (DEPLOYMENTS, PODS):
            items = await self._list(resource, "", labelSelector=_OPERATORS)
            self._keep_objects(
                f"operator/{resource.plural}.yaml", f"operator {resource.plural}", items
            )
        pods = items
        if not pods:
            self.missing.append(
                "log and metrics of the operator: no pod has the labels of the chart; add the "
                "output of `manta run` yourself"
            )
        for pod in pods:
            await self._operator_pod(pod)
        definitions = await self._list(CRDS, "")
        ours = [each for each in definitions if dig(each, "spec", "group") in _GROUPS]
        for each in ours:  # the schemas are long, and known by the version
            for version in mappings(dig(each, "spec", "versions")):
                version.pop("schema", None)
        self._keep_objects("operator/definitions.yaml", "definitions", ours)

    async def _operator_pod(self, pod: Json) -> None:
        metadata = pod["metadata"]
        base = PODS.path(metadata["namespace"], metadata["name"])
        for container in mappings(dig(pod, "spec", "containers")):
            query = {"container": str(container.get("name")), "tailLines": _LINES}
            log = await self._page(f"{base}/log", query)
            self._keep_text(f"operator/{metadata['name']}.log", log)
            if any(
                each.get("restartCount")
                for each in mappings(dig(pod, "status", "containerStatuses"))
            ):
                before = await self._page(f"{base}/log", query | {"previous": "true"})
                self._keep_text(f"operator/{metadata['name']}.previous.log", before)
        for volume in mappings(dig(pod, "spec", "volumes")):
            if name := dig(volume, "configMap", "name"):
                path = f"/api/v1/namespaces/{metadata['namespace']}/configmaps/{name}"
                self._keep_text(f"operator/configmap-{name}.json", await self._page(path, {}))
        metrics = await self._page(f"{base}:8080/proxy/metrics", {})
        self._keep_text(f"operator/{metadata['name']}.metrics.txt", metrics)

    async def debug_page(self, port: int) -> None:
        """Collect the debug page of an operator that can be reached on this machine."""
        try:
            page, _ = await asyncio.to_thread(page_of, port)
        except ConfigurationError as error:
            self.missing.append(f"debug page: {error}")
            return
        self._keep_text("operator/debug.json", msgspec.json.format(page, indent=2))
        self.counts["debug page"] += 1

    async def versions(self) -> None:
        """Collect the versions of this program and of the API server."""
        server = await self._page("/version", {}) or b"{}"
        lines = [
            f"manta {controller.__version__}, Python {platform.python_version()}",
            platform.platform(),
            f"API server: {server.decode(errors='replace')}",
        ]
        self._keep_text("version.txt", "\n".join(lines).encode())

    def write(self, file: Path, now: datetime) -> int:
        """Write the archive, for its owner's eyes only; returns its size.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        if self.missing:
            self.files["missing.txt"] = "\n".join([*self.missing, ""]).encode()
        archive, folder = io.BytesIO(), file.name.partition(".")[0]
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mode, entry.mtime = len(content), 0o600, int(now.timestamp())
                tar.addfile(entry, io.BytesIO(content))
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                out.write(archive.getvalue())
        except OSError as error:
            raise ConfigurationError(
                f"{file}: {error.strerror}; name another file with -f"
            ) from error
        return archive.tell()

    def summary(self, file: Path, size: int) -> str:
        """Return the last lines: what could not be had, and what is inside."""
        inside = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count)
        last = (
            f"{file} ({max(1, size // 1000)} kB): {inside or 'nothing of Ray'}; "
            f"{self.redaction.count} values redacted. Look through it before you send it."
        )
        return "\n".join([*(f"not inside: {each}" for each in self.missing), last])

    def _keep_objects(self, name: str, title: str, items: Sequence[Json]) -> None:
        self.counts[title] += len(items)
        if items:
            texts = [yaml.safe_dump(self.redaction.object(each), sort_keys=False) for each in items]
            self.files[name] = "---\n".join(texts).encode()

    def _keep_text(self, name: str, content: bytes) -> None:
        if content:
            text = content.decode(errors="replace")
            self.files[name] = self.redaction.text(text).encode()
            if name.endswith(".log"):
                self.counts["log lines"] += text.count("\n")

    async def _list(
        self, resource: Resource[Any], namespace: str, *, first: bool = False, **query: str
    ) -> list[Json]:
        """Return the objects as plain data; what cannot be had is noted, but for the first kind."""
        try:
            body = await self.client.read_page(resource.path(namespace), query)
        except PathNotFound:
            if first:
                raise
            return []
        except Forbidden as error:
            self.missing.append(f"{resource.plural}: {error}")
            return []
        common = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [common | each for each in mappings(mapping(msgspec.json.decode(body)).get("items"))]

    async def _page(self, path: str, query: dict[str, str]) -> bytes:
        try:
            return await self.client.read_page(path, query)
        except KubeError as error:
            self.missing.append(f"{path}: {error}")
            return b""


def _uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def _with_descendants(roots: Iterable[str], found: dict[str, Json]) -> set[str]:
    """Return these uids and those of all objects that they own, directly or not."""
    members = set(roots)
    while True:
        more = {
            uid
            for uid, obj in found.items()
            if uid not in members
            and any(
                each.get("uid") in members
                for each in mappings(dig(obj, "metadata", "ownerReferences"))
            )
        }
        if not more:
            return members
        members |= more
