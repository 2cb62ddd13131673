"""The command `manta rollout`: status, pause, resume, undo and history of a rolling update."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TextIO

import msgspec
import yaml

from controller.command.connection import CommandFailed, ConnectionOptions
from controller.command.output import CommandOutput, parse_target
from controller.command.planning.net_changes import Difference, differences
from controller.command.rollout_kinds import (
    RayClusterFleetRollout,
    RayClusterRollout,
    RolloutKind,
    RolloutProgress,
    TemplateRevision,
    left_alone,
    revisions_in,
    templates_restored,
)
from controller.kube.client import Client
from controller.kube.errors import (
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    ServerTimeout,
    TooManyRequests,
    TransportError,
    UnexpectedResponse,
)
from controller.kube.resources import CONTROLLER_REVISIONS, INSTALL_CRDS

Json = dict[str, Any]

KINDS: Final[Mapping[str, RolloutKind]] = {
    each.resource.kind.lower(): each for each in (RayClusterRollout(), RayClusterFleetRollout())
}
"""Kinds by their names on the command line."""


class Workload(msgspec.Struct, frozen=True):
    """One object on the command line."""

    kind: RolloutKind
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `raycluster.ray.io/NAME`, as kubectl prints it."""
        resource = self.kind.resource
        return f"{resource.kind.lower()}.{resource.group}/{self.name}"

    @property
    def argument(self) -> str:
        """`raycluster/NAME`, with its namespace, as other commands take it."""
        return f"{self.kind.resource.kind.lower()}/{self.name} -n {self.namespace}"


def parse_workload(words: Sequence[str], namespace: str) -> Workload:
    """Read `TYPE/NAME` or `TYPE NAME`.

    Raises:
        ConfigurationError: it is something else, or there is no such type.
    """
    resource, name = parse_target(words, [kind.resource for kind in KINDS.values()], "rolled out")
    return Workload(KINDS[resource.kind.lower()], namespace, name)


async def revisions_of(client: Client, workload: Workload, obj: Json) -> list[TemplateRevision]:
    """Return all revisions, by number.

    Raises:
        CommandFailed: they may not be read.
    """
    path = CONTROLLER_REVISIONS.path(workload.namespace)
    try:
        listed = await client.request_json("GET", path)
    except Forbidden as error:
        raise CommandFailed(
            f"the history may not be read: {error}; ask for the right to list controllerrevisions"
        ) from error
    return revisions_in(listed.get("items") or (), obj, workload.kind.templates_of(obj))


def choose(
    revisions: Sequence[TemplateRevision], number: int, workload: Workload
) -> TemplateRevision:
    """Return the revision of a number; with 0 the newest one that is not the present one.

    Raises:
        CommandFailed: there is none.
    """
    if not revisions:
        raise CommandFailed(_not_begun(workload))
    if number:
        found = [each for each in revisions if each.revision == number]
        numbers = ", ".join(str(each.revision) for each in revisions)
        missing = f"{workload} has no revision {number}; there are {numbers}"
    else:
        found = [each for each in revisions if not each.current]
        missing = (
            f"{workload} has only one revision, the present one, so there is nothing to undo; "
            "apply an earlier manifest instead"
        )
    if not found:
        raise CommandFailed(missing)
    return found[-1]


def no_history(workload: Workload, obj: Json) -> str:
    """Return why an object has no revisions, and what to do."""
    try:
        workload.kind.is_paused(obj)  # refused without rolling updates
    except CommandFailed as error:
        return f"{workload} has no history: {error}"
    return _not_begun(workload)


def _not_begun(workload: Workload) -> str:
    return (
        f"{workload} has no history; it begins when the operator sees the strategy RollingUpdate, "
        "and needs the right to create controllerrevisions"
    )


class Report(CommandOutput):
    """What a subcommand prints: lines about one object, or one JSON document that names it."""

    def __init__(self, workload: Workload, stream: TextIO, *, as_json: bool) -> None:
        super().__init__(stream, as_json=as_json)
        self._workload = workload

    def value(self, fields: dict[str, Any]) -> None:
        """Print the JSON document: these fields after those that identify the object."""
        workload = self._workload
        identity = {
            "kind": workload.kind.resource.kind,
            "namespace": workload.namespace,
            "object": workload.name,
        }
        self.document({**identity, **fields})

    def result(self, text: str, **fields: Any) -> None:
        """Report what was done, a predicate of the object."""
        self.value({"result": text, **fields})
        self.line(f"{self._workload} {text}")


# Changes an object under its resource version, and retries after a conflict.

_ATTEMPTS: Final = 5


async def read(client: Client, workload: Workload) -> Json:
    """Return the object as plain data.

    Raises:
        CommandFailed: it does not exist.
    """
    try:
        return await client.get_raw(workload.kind.resource, workload.namespace, workload.name)
    except NotFound:
        raise CommandFailed(
            f"{workload} does not exist in namespace {workload.namespace}; -n chooses another one"
        ) from None


async def change(client: Client, workload: Workload, edit: Callable[[Json], Json]) -> Json:
    """Replace the object by `edit` of it; returns what is stored.

    Raises:
        CommandFailed: it does not exist, or others change it all the time.
    """
    for _ in range(_ATTEMPTS):
        wanted = edit(await read(client, workload))
        try:
            await client.replace(workload.kind.resource, workload.namespace, workload.name, wanted)
        except Conflict:
            continue
        return await read(client, workload)
    raise CommandFailed(f"{workload} is being changed all the time; try again")


# `manta rollout history`: lists the revisions that can be restored.

_COLUMNS = ("REVISION", "CURRENT", "CREATED", "IMAGES", "CHANGE-CAUSE")


async def show_history(
    client: Client, workload: Workload, report: Report, *, revision: int
) -> None:
    """Print all revisions, or the templates of the one with this number.

    Raises:
        CommandFailed: the object or the revision does not exist.
    """
    present = await read(client, workload)
    found = await revisions_of(client, workload, present)
    if revision:
        _show_templates(report, workload, choose(found, revision, workload))
    elif found:
        _show_list(report, workload, found)
    else:
        report.value({"revisions": []})
        report.line(no_history(workload, present))


def _show_templates(report: Report, workload: Workload, revision: TemplateRevision) -> None:
    report.value(msgspec.to_builtins(revision))
    report.line(f"{workload} with revision #{revision.revision}", "bold")
    report.line(yaml.safe_dump(revision.templates, sort_keys=False).rstrip())


def _show_list(report: Report, workload: Workload, revisions: Sequence[TemplateRevision]) -> None:
    report.value({"revisions": list(map(_without_templates, revisions))})
    report.line(str(workload), "bold")
    current = next((n for n, each in enumerate(revisions, start=1) if each.current), None)
    report.table([_COLUMNS, *map(_row, revisions)], highlighted=current)


def _row(revision: TemplateRevision) -> tuple[str, ...]:
    return (
        str(revision.revision),
        "*" if revision.current else "",
        revision.created,
        ",".join(revision.images) or "<none>",
        revision.change_cause or "<none>",
    )


def _without_templates(revision: TemplateRevision) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(revision)
    return {key: value for key, value in told.items() if key != "templates"}


# `manta rollout pause` and `resume`.


async def set_paused(client: Client, workload: Workload, report: Report, *, paused: bool) -> None:
    """Pause or resume.

    Raises:
        CommandFailed: it is so already, there are no rolling updates, or the server drops it.
    """
    kind, done = workload.kind, "paused" if paused else "resumed"

    def edit(obj: Json) -> Json:
        if kind.is_paused(obj) == paused:
            raise CommandFailed(f"{workload} is {'already' if paused else 'not'} paused")
        return kind.with_pause(obj, paused=paused)

    stored = await change(client, workload, edit)
    if kind.is_paused(stored) != paused:
        raise CommandFailed(
            f"{workload} was not {done}: the installed definition drops the field; install this "
            f"operator's definitions ({INSTALL_CRDS})"
        )
    report.result(done)


# `manta rollout status`: follows a rollout until it is complete or has failed.

INTERVAL: Final = 1.0
"""Seconds between two looks at the object."""

_PASSING: Final = (
    TransportError,
    UnexpectedResponse,
    TooManyRequests,
    ServerTimeout,
    ServerError,
)
"""Errors that do not concern the object, such as while the API server restarts."""


async def follow(
    client: Client, workload: Workload, report: Report, *, watch: bool, patience: float
) -> RolloutProgress:
    """Return the progress when the rollout is over, or now if it is not to `watch`.

    Once the object has been read, an API server that does not answer is waited for. The report gets
    a line whenever something has changed; `patience` are seconds, 0 means for ever.

    Raises:
        CommandFailed: the object does not exist, or `patience` is at an end.
        KubeError: the first look failed, or another one did for good.
    """
    told = ""
    try:
        async with asyncio.timeout(patience or None):
            while True:
                try:
                    found = workload.kind.progress(await read(client, workload))
                except _PASSING as error:
                    if not told:
                        raise
                    found, text = None, f"Waiting for the API server: {error}..."
                else:
                    text = sentence(workload, found)
                if text != told:
                    report.line(text, _style(found))
                    told = text
                if found is not None and (found.is_over or not watch):
                    return found
                await asyncio.sleep(INTERVAL)
    except TimeoutError:
        raise CommandFailed(
            f"{workload} was not rolled out within {patience:g} s: {told or 'nothing is known'}"
        ) from None


def sentence(workload: Workload, progress: RolloutProgress) -> str:
    """Return one line, in kubectl's words where it has any."""
    name = f'{workload.kind.resource.kind.lower()} "{workload.name}"'
    match progress.state:
        case "complete":
            return f"{name} successfully rolled out"
        case "failed":
            return f"{name} cannot be rolled out: {progress.message}"
        case "unobserved":
            return f"Waiting for {name} spec update to be observed..."
        case "paused":
            remedy = f"resume it with `manta rollout resume {workload.argument}`"
            return f"{name} is paused: {progress.message}; {remedy}"
        case "rolling":
            return f"Waiting for {name} rollout to finish: {progress.message}..."


def _style(progress: RolloutProgress | None) -> str:
    state = "" if progress is None else progress.state
    return {"complete": "green", "failed": "red", "paused": "yellow"}.get(state, "")


# `manta rollout undo`: restores the templates of an earlier revision.


async def undo(
    client: Client, workload: Workload, report: Report, *, revision: int, dry_run: bool
) -> None:
    """Restore the templates of a revision; 0 is the newest one but the present one.

    Raises:
        CommandFailed: there is no such revision, or there are no rolling updates.
    """
    kind, present = workload.kind, await read(client, workload)
    paused = kind.is_paused(present)
    chosen = choose(await revisions_of(client, workload, present), revision, workload)
    wanted = templates_restored(present, chosen.templates)
    edits = list(differences(kind.templates_of(present), kind.templates_of(wanted)))
    for sentence in left_alone(present, chosen.templates):
        sys.stderr.write(f"note: {sentence}\n")
    number = chosen.revision
    if not edits:
        report.result(f"skipped rollback (current template already matches revision {number})")
    elif dry_run:
        report.result(f"would be rolled back to revision {number}", edits=edits)
        _show(report, edits)
    else:
        await change(client, workload, lambda obj: templates_restored(obj, chosen.templates))
        report.result(f"rolled back to revision {number}")
        if paused:
            remedy = f"manta rollout resume {workload.argument}"
            sys.stderr.write(f"note: it is paused; no pod is replaced before `{remedy}`\n")


def _show(report: Report, edits: Sequence[Difference]) -> None:
    for each in edits:
        old, new = (msgspec.json.encode(value).decode() for value in (each.old, each.new))
        report.line(f"  {each.path}: {old} -> {new}", "yellow")


Action = Literal["status", "pause", "resume", "undo", "history"]


class RolloutOptions(ConnectionOptions, frozen=True):
    """The arguments of one subcommand.

    The revision is 0 for the previous one (`undo`) or for all (`history`); `timeout` are seconds
    to wait, 0 for ever.
    """

    action: Action
    target: Sequence[str]
    watch: bool = True
    timeout: float = 0.0
    revision: int = 0
    dry_run: bool = False


async def rollout(client: Client, namespace: str, options: RolloutOptions, stream: TextIO) -> int:
    """Run the subcommand; returns the exit status.

    Raises:
        ConfigurationError: the arguments name no object.
        CommandFailed: it could not be done; the message says why and what to do.
        KubeError: the API server could not be reached, or refused.
    """
    workload = parse_workload(options.target, namespace)
    report = Report(workload, stream, as_json=options.output == "json")
    match options.action:
        case "status":
            found = await follow(
                client, workload, report, watch=options.watch, patience=options.timeout
            )
            report.value(msgspec.to_builtins(found))
            return 1 if found.state == "failed" else 0
        case "pause" | "resume":
            await set_paused(client, workload, report, paused=options.action == "pause")
        case "undo":
            revision, dry_run = options.revision, options.dry_run
            await undo(client, workload, report, revision=revision, dry_run=dry_run)
        case "history":
            await show_history(client, workload, report, revision=options.revision)
    return 0
