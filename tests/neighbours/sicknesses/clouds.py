"""Nodes of Workspaces do not come, do not stay, or are asked for in vain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count

from msgspec.structs import replace

from controller.kaito.api.config_maps import INFERENCE_KEY
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.lookups.huggingface import Document
from controller.kaito.provisioning.nodes import claim_name, node_pool_name
from controller.kube.resources import CONFIG_MAPS, NODES
from controller.testing.faults import ErrorResponse, Rule
from devcluster.karpenter import ClaimBehaviour, node_name
from tests.neighbours.kinds import Manifest
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import POOLS, Course, Sickness
from tests.neighbours.sickness import WORKSPACES as ONLY
from tests.neighbours.sicknesses.objects import odd
from tests.neighbours.sicknesses.refusals import DENIES, NEEDS_TEAM, VARYING, no_right

AT_THE_END = 620.0
"""Seconds after which a claim gets at last what it waits for: shortly after the sickness."""

LONGEST_BACK_OFF = 600.0


def claims_that(behaviour: ClaimBehaviour) -> Course:
    """This becomes of the tenant's claims."""

    @contextmanager
    def course(sick: Tenant) -> Iterator[None]:
        cloud = sick.street.workspaces.cloud
        usual = cloud.of
        cloud.of = lambda name, _number: behaviour if name.startswith("sick") else None
        yield
        cloud.of = usual

    return course


def claims_refused(answer: Callable[[str], ErrorResponse]) -> Course:
    """None of the tenant's claims can be created, or none of its pools; so it is answered."""

    @contextmanager
    def course(sick: Tenant) -> Iterator[None]:
        resource = str(NODE_POOLS if sick.column.has_pools else NODE_CLAIMS)

        def is_of_the_sick(name: str) -> bool:
            found = [each["metadata"] for each in sick.objects(WORKSPACES)]
            return name in {node_pool_name(sick.namespace, each["name"]) for each in found} | {
                claim_name(each["uid"], 0, 0, attempt) for each in found for attempt in range(20)
            }

        rule = Rule(answer(resource), resource, frozenset({"create"}), is_of_the_sick)
        with sick.street.ruled(rule):
            yield

    return course


def hugging_face_that(fault: Callable[[str, str], Document] | None) -> Course:
    """The tenant's models are not in the catalogue, and this is what Hugging Face answers about
    them; None if it answers nothing.
    """

    def serve_another_model(workspace: Manifest) -> None:
        workspace["inference"] = {"preset": {"name": "somebody/some-model"}}

    @contextmanager
    def course(sick: Tenant) -> Iterator[None]:
        hub = sick.street.hub
        hub.fault, hub.silent = fault, fault is None
        with sick.altered(serve_another_model):
            yield
        hub.fault, hub.silent = None, False

    return course


def refuses_in_varying_words() -> Callable[[str, str], Document]:
    """An answer that is another one each time."""
    numbers = count()
    return lambda _path, _token: Document(500 + next(numbers) % 90)


@asynccontextmanager
async def without_claims(sick: Tenant) -> AsyncIterator[None]:
    """Somebody deletes the definition of claims, which go with it; at the end it is back."""
    await sick.street.workspaces.uninstall_claims()
    yield
    await sick.street.install_kaito()


@asynccontextmanager
async def silent_nodes(sick: Tenant) -> AsyncIterator[None]:
    """The kubelets of the tenant's nodes no longer report; then they do again."""
    names = [node_name(name) for name in claims_of(sick)]

    async def report(status: str) -> None:
        condition = {"type": "Ready", "status": status, "reason": "NodeStatusUnknown"}
        patch = {"status": {"conditions": [condition]}}
        for name in names:
            await sick.user.merge_patch(NODES, "", name, patch, subresource="status")

    await report("Unknown")
    yield
    await report("True")


@asynccontextmanager
async def deleted_claims(sick: Tenant) -> AsyncIterator[None]:
    """Another controller deletes the tenant's claims every ten seconds."""

    async def delete() -> None:
        for name in claims_of(sick):
            await sick.user.delete(NODE_CLAIMS, "", name)

    async with sick.meanwhile(delete, every=10.0):
        yield


def claims_of(sick: Tenant) -> list[str]:
    items = sick.server.store.table(str(NODE_CLAIMS)).items.values()
    found = [item.object["metadata"] for item in items]
    return [
        each["name"]
        for each in found
        if each["labels"].get(sick.street.workspaces.namespace_label) == sick.namespace
        and "deletionTimestamp" not in each
    ]


def template(workspace: Manifest) -> Manifest:
    """Give a Workspace a template of its own; its specification of pods."""
    spec: Manifest = {"containers": [{"name": "server", "image": "example.com/server:1"}]}
    workspace["inference"] = {"template": {"spec": spec}}
    return spec


def nest(workspace: Manifest) -> None:
    inner: Manifest = {}
    for _ in range(600):
        inner = {"a": inner}
    template(workspace)["odd"] = inner


def many(workspace: Manifest) -> None:
    template(workspace)
    workspace["resource"]["count"] = 2_000_000_000


DOUBLED = "\n".join([
    "m0: &m0 {a: 1}",
    *(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, 41)),
    "vllm: *m40",
])  # fmt: skip
"""Forty lines that stand for a trillion values."""


@asynccontextmanager
async def expanding_options(sick: Tenant) -> AsyncIterator[None]:
    """The options of the tenant's models are YAML that no memory can hold."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "options"},
        "data": {INFERENCE_KEY: DOUBLED},
    }
    await sick.user.create(CONFIG_MAPS, sick.namespace, body)
    async with odd(lambda workspace: workspace["inference"].update(config="options"))(sick):
        yield
    await sick.user.delete(CONFIG_MAPS, sick.namespace, "options")


SICKNESSES = tuple(
    replace(row, only=ONLY)
    for row in (
        Sickness(
            name="claims stay pending",
            course=claims_that(ClaimBehaviour(node_after=AT_THE_END)),
            named="waiting until the claim becomes ready|NodePool .*: 0 of 1 NodeClaims are ready",
        ),
        Sickness(
            name="there is no such machine",
            spares=POOLS,  # Karpenter deletes such claims of a pool: the next row
            course=claims_that(ClaimBehaviour(node_after=2, stock_out=True)),
            named="InsufficientCapacity.*unavailable during launch",
            lingers=LONGEST_BACK_OFF,
            slow=True,
        ),
        Sickness(
            name="the provisioner deletes claims that it cannot serve",
            course=claims_that(ClaimBehaviour(node_after=2, stock_out=True, gives_up_after=4)),
            named="InsufficientCapacity.*unavailable during launch",
            lingers=LONGEST_BACK_OFF,
            slow=True,
        ),
        Sickness(
            name="machines are lost as soon as they are ready",
            course=claims_that(ClaimBehaviour(lost_after=8)),
            named="NodeClaim",
            lingers=LONGEST_BACK_OFF,
            slow=True,
        ),
        Sickness(
            name="the GPU plugin does not come",
            course=claims_that(ClaimBehaviour(plugin_after=AT_THE_END)),
            named="NodePluginsNotReady.*waiting all node plugins to be ready: (ws|sick).*-node",
        ),
        Sickness(
            name="a webhook denies claims",
            course=claims_refused(lambda _resource: DENIES),
            named=NEEDS_TEAM,
            slow=True,
        ),
        Sickness(
            name="a webhook denies claims in varying words",
            course=claims_refused(lambda _resource: ErrorResponse(400, "BadRequest", VARYING)),
            named="request .* refused",
            slow=True,
        ),
        Sickness(
            name="no right to create claims",
            course=claims_refused(lambda resource: no_right("create", resource)),
            named='cannot create resource "node(claims|pools)"',
            slow=True,
        ),
        Sickness(
            name="another controller deletes claims",
            course=deleted_claims,
            late=True,
            named="NodeClaim",
            lingers=LONGEST_BACK_OFF,
            slow=True,
        ),
        Sickness(
            name="the definition of claims is deleted and created again",
            course=without_claims,
            late=True,
            everywhere="no claims of anybody are served",
            named="NodeClaimsNotServed.*install the definitions",
            slow=True,
        ),
        Sickness(
            name="nodes of claims are lost",
            course=silent_nodes,
            late=True,
            named="NodeNotReady.*0 of 1",
            slow=True,
        ),
        Sickness(
            name="Hugging Face never answers",
            course=hugging_face_that(None),
            named="LookupTimeout.*no answer within 30 s.*annotation manta.dev/model",
            lingers=LONGEST_BACK_OFF,
            slow=True,
        ),
        Sickness(
            name="Hugging Face fails in varying words",
            course=hugging_face_that(refuses_in_varying_words()),
            named="ModelMetadataUnavailable.*answers with status 5",
            lingers=LONGEST_BACK_OFF,
            slow=True,
        ),
        Sickness(
            name="Hugging Face has no such model",
            course=hugging_face_that(lambda _path, _token: Document(404)),
            named="ModelMetadataUnavailable.*does not have the files",
            lingers=LONGEST_BACK_OFF,
            slow=True,
        ),
        Sickness(
            name="an unknown instance type",
            course=odd(lambda workspace: workspace["resource"].update(instanceType="none")),
            named="Unsupported instance type none",
            slow=True,
        ),
        Sickness(
            name="600 nested maps in a template of a Workspace",
            course=odd(nest),
            named="nested|deep",
            slow=True,
        ),
        Sickness(
            name="containers of the wrong type in a template of a Workspace",
            course=odd(lambda workspace: template(workspace).update(containers="none")),
            named="containers",
            slow=True,
        ),
        Sickness(
            name="a quantity of 5,000 digits in a template of a Workspace",
            course=odd(
                lambda workspace: template(workspace)["containers"][0].update(
                    resources={"limits": {"cpu": "9" * 5000}}
                )
            ),
            named="characters, at most",
            slow=True,
        ),
        Sickness(
            name="two billion nodes for one Workspace",
            course=odd(many),
            named="TooManyNodes.*at most 256",
            slow=True,
        ),
        Sickness(
            name="options that expand without end",
            course=expanding_options,
            named="Failed to parse inference_config.yaml: it has more than 5000 values",
            slow=True,
        ),
    )
)
