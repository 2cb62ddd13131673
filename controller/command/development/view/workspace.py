"""One Workspace: its conditions, and its claims, nodes, server and pods, each in a few words."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import conditions_of
from controller.command.development.view.screens import Changes, pod_state
from controller.kaito.api import labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.command.development.view.screens import Screen
    from controller.kaito.api.karpenter import GpuNode, NodeClaim
    from controller.kaito.api.workspace import Workspace
    from controller.kube.objects import Pod, StatefulSet

_LINES: Final = 6  # of the server's output that a picture shows
_CONDITION: Final = "condition"
_SUCCEEDED: Final = "WorkspaceSucceeded"  # says nothing beside the other conditions


class WorkspaceView:
    """The current state of one Workspace, updated by informer handlers.

    Args:
        name: name of the Workspace.
        screen: where changes are shown.

    Attributes:
        reasons: all observed reasons of conditions, with their types.
        claims: names of the NodeClaims that exist now.
        nodes: names of the nodes that exist now and came with claims.
        server: server of the model; None if it does not exist.
        pods: keys and states of the pods that exist now.
    """

    def __init__(self, name: str, screen: Screen) -> None:
        self.name = name
        self.reasons: set[tuple[str, str]] = set()
        self.claims: set[str] = set()
        self.nodes: set[str] = set()
        self.server: StatefulSet | None = None
        self.pods: dict[str, str] = {}
        self._workspace: Workspace | None = None
        self._states: dict[str, str] = {}
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._screen = screen
        self._changes = Changes()

    def is_true(self, type_: str) -> bool:
        """Return whether a condition is true."""
        listed = conditions_of(self._workspace) if self._workspace else []
        return any((each.get("type"), each.get("status")) == (type_, "True") for each in listed)

    @property
    def is_empty(self) -> bool:
        """True if nothing is left of the Workspace."""
        return not (self._workspace or self.claims or self.nodes or self.server or self.pods)

    async def until(self, reached: Callable[[WorkspaceView], bool]) -> None:
        """Wait until the state satisfies `reached`. The caller sets the time limit."""
        await self._changes.until(lambda: reached(self))

    def saw_workspace(self, key: str, workspace: Workspace | None) -> None:
        """Update the Workspace; None once it is deleted."""
        if key.partition("/")[2] != self.name:
            return
        self._workspace = workspace
        if workspace is None:
            for subject in [each for each in self._states if each.startswith(_CONDITION)]:
                del self._states[subject]
        for each in conditions_of(workspace) if workspace else ():
            self.reasons.add((str(each.get("type")), str(each.get("reason"))))
            if each.get("type") != _SUCCEEDED:
                words = f"{each.get('status')} {each.get('reason')}: {each.get('message')}"
                self._show(f"{_CONDITION} {each.get('type')}", words)
        self._show(f"Workspace {self.name}", "there" if workspace else "")

    def saw_claim(self, key: str, claim: NodeClaim | None) -> None:
        """Update a NodeClaim; None once it is deleted."""
        self._count(self.claims, key, is_there=claim is not None)
        self._show(f"NodeClaim {key}", _claim_state(claim))

    def saw_node(self, key: str, node: GpuNode | None) -> None:
        """Update a node; None once it is deleted."""
        if key not in self.nodes and not (
            node and labels.WORKSPACE in (node.metadata.labels or {})
        ):
            return
        self._count(self.nodes, key, is_there=node is not None)
        self._show(f"Node {key}", _node_state(node))

    def saw_server(self, key: str, server: StatefulSet | None) -> None:
        """Update the model server; None once it is deleted."""
        self.server = server
        self._show(f"StatefulSet {key.partition('/')[2]}", _server_state(server))

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Update a pod; None once it is deleted."""
        state = pod_state(pod) if pod else ""
        self.pods[key] = state
        if pod is None:
            del self.pods[key]
        self._show(f"pod {key.partition('/')[2]}", state)

    def show(self, line: str) -> None:
        """Show something else that has happened."""
        self._lines.append(line)
        self._screen.change(line)
        self._redraw()

    def _count(self, names: set[str], name: str, *, is_there: bool) -> None:
        if is_there:
            names.add(name)
        else:
            names.discard(name)

    def _show(self, subject: str, state: str) -> None:
        """Show the new state of a subject, if it is new; an empty one means that it is gone."""
        if self._states.get(subject, "") != state:
            self._screen.change(f"{subject}: {state or 'gone'}")
        if state:
            self._states[subject] = state
        else:
            self._states.pop(subject, None)
        self._redraw()

    def _redraw(self) -> None:
        self._screen.draw(self._picture)
        self._changes.notify()

    def _picture(self) -> Any:
        from rich.console import Group  # noqa: PLC0415  an extra
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(title=f"Workspace {self.name}", min_width=72)
        table.add_column("object")
        table.add_column("state")
        for subject in sorted(self._states):
            state = self._states[subject]
            table.add_row(subject, Text(state, style=_colour(state)))
        return Group(table, *map(Text, self._lines))


def _claim_state(claim: NodeClaim | None) -> str:
    if claim is None:
        return ""
    if claim.metadata.terminating:
        return "Terminating"
    said = claim.status.condition("Ready") or claim.status.condition("Launched")
    if said is None:
        return "new"
    if said.status == "True":
        return f"Ready, on {claim.status.node_name}"
    return said.reason or said.status


def _node_state(node: GpuNode | None) -> str:
    if node is None:
        return ""
    ready = "Ready" if node.status.is_true("Ready") else "not ready"
    gpus = int(node.status.capacity.gpus)
    return f"{ready}, {f'offers {gpus} GPU' if gpus else 'without its GPU plugin'}"


def _server_state(server: StatefulSet | None) -> str:
    if server is None:
        return ""
    wanted = 1 if server.spec.replicas is None else server.spec.replicas
    return f"{server.status.ready_replicas} of {wanted} ready"


def _colour(state: str) -> str:
    words = state.split()
    if words[0] == "True" or words[0].startswith("Ready"):
        return "green"
    return "magenta" if words[0] == "Terminating" else "yellow"
