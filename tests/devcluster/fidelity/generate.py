"""Sequences of requests from a seed: the same seed always makes the same sequence."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from tests.devcluster.fidelity.custom import RAY_CLUSTERS, THINGS
from tests.devcluster.fidelity.kinds import CONFIG_MAPS, JOBS, PODS, SERVICES, Kind
from tests.devcluster.fidelity.steps import MERGE, Json, Step, merged

KINDS = (CONFIG_MAPS, PODS, SERVICES, JOBS, RAY_CLUSTERS, THINGS)
NAMES = ("a", "b", "c")
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"

_LABEL_SELECTORS = (
    "app=x",
    "app!=x",
    "app in (x,y),tier",
    "!app",
    "app notin (x)",
    "tier>1",
    "app=x,tier=1",
    "app==y",
    "app=",
    "a b=c",
    "app in x",
    "app=x,",
    "=x",
)
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "1"}
_METADATA_MISTAKES: tuple[Json, ...] = (
    {"name": "UPPER"},
    {"name": "a.b"},
    {"name": "-a"},
    {"name": "a" * 64},
    {"name": "a" * 254},
    {"name": None},
    {"name": 5},
    {"labels": {"a b": "c"}},
    {"labels": {"a": "b c"}},
    {"labels": {"a": 5}},
    {"labels": {"x/": "b"}},
    {"labels": {"Pre_fix/a": "b"}},
    {"labels": {"a": "v" * 64}},
    {"annotations": {"a b": "c"}},
    {"annotations": {"a": 1}},
    {"finalizers": ["not/a/finalizer"]},
    {"finalizers": ["plain"]},
    {"finalizers": "x"},
    {"ownerReferences": [{"kind": "Pod"}]},
    {"ownerReferences": [OWNER, OWNER | {"uid": "2", "controller": True}]},
    {"namespace": "other"},
    {"uid": "mine"},
    {"resourceVersion": "5"},
    {"generation": 9},
    {"creationTimestamp": "2020-01-01T00:00:00Z"},
    {"creationTimestamp": "yesterday"},
    {"deletionTimestamp": "2020-01-01T00:00:00Z"},
    {"unknown": 1},
)
_METADATA_CHANGES: tuple[Json, ...] = (
    {"labels": {"app": "y"}},
    {"labels": {"app": None}},
    {"labels": None},
    {"annotations": {"note": "n"}},
    {"finalizers": ["example.org/hold"]},
    {"finalizers": None},
    {"finalizers": []},
    {"ownerReferences": [OWNER]},
)
_QUERIES: tuple[Json, ...] = (
    {},
    {},
    {},
    {},
    {"dryRun": "All"},
    {"dryRun": "Some"},
    {"fieldValidation": "Strict"},
    {"fieldValidation": "Ignore"},
    {"fieldValidation": "Warn"},
    {"fieldValidation": "Maybe"},
    {"fieldManager": "me"},
)


_LEFT_OUT = {"Job": {"name"}, "Service": {"name", "resourceVersion"}}
"""Mistakes in metadata that upstream words or orders in a way of its own for a kind."""


class Generator:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"fidelity {seed}")
        self._choose = self._rng.choice

    def steps(self, *, compacts: bool) -> list[Step]:
        kinds = self._rng.sample(KINDS, self._choose([1, 1, 2]))
        count = self._rng.randint(6, 14)
        steps = [self._create(kind, name) for kind in kinds for name in NAMES[:2]]
        makers, weights = zip(*_MAKERS, strict=True)
        for index in range(count):
            if compacts and index == count // 2:
                steps.append(Step("COMPACT", "/"))
            maker = self._rng.choices(makers, weights)[0]
            steps.append(maker(self, self._choose(kinds), self._choose(NAMES)))
        for kind in kinds:
            steps.append(Step("GET", kind.collection))
            steps.append(self._watch(kind, "", from_first=True))
        return steps

    def _create(self, kind: Kind, name: str) -> Step:
        return Step("POST", kind.collection, body=kind.body(self._rng, name))

    def _create_anyhow(self, kind: Kind, name: str) -> Step:
        body = kind.body(self._rng, name)
        if self._rng.random() < 0.15:
            del body["metadata"]["name"]
            body["metadata"]["generateName"] = (
                "gen-" if kind is JOBS else self._choose(["gen-", "Bad_"])
            )
        return Step("POST", kind.collection, self._query(), body=body)

    def _create_wrong(self, kind: Kind, name: str) -> Step:
        return Step(
            "POST",
            kind.collection,
            self._query(),
            body=self._wrong(kind.body(self._rng, name), kind),
        )

    def _wrong(self, body: Json, kind: Kind) -> Json:
        mistake = copy.deepcopy(self._choose(kind.mistakes))
        if self._rng.random() < 0.35:
            left_out = _LEFT_OUT.get(kind.kind, set())
            mistakes = [one for one in _METADATA_MISTAKES if not left_out & one.keys()]
            mistake = {"metadata": copy.deepcopy(self._choose(mistakes))}
        return merged(body, mistake)

    def _query(self) -> Json:
        return dict(self._choose(_QUERIES))

    def _get(self, kind: Kind, name: str) -> Step:
        query = self._choose([{}, {}, {}, {}, {"resourceVersion": "x"}])
        accept = self._choose(["application/json"] * 3 + [TABLE, "text/html"])
        path = f"{kind.collection}/{name}" + self._choose(["", "", "", "", "/status", "/none"])
        return Step("GET", path, dict(query), {"Accept": accept})

    def _list(self, kind: Kind, _: str) -> Step:
        query: Json = {}
        if self._rng.random() < 0.4:
            query["labelSelector"] = self._choose(_LABEL_SELECTORS)
        if self._rng.random() < 0.3:
            query["fieldSelector"] = self._field_selector(kind)
        if self._rng.random() < 0.35:
            query["limit"] = self._choose(["1", "2", "5", "x", "-1", ""])
        if self._rng.random() < 0.25:
            query |= self._revision_query(kind)
        accept = self._choose(["application/json"] * 4 + [TABLE, "text/html"])
        return Step("GET", kind.collection, query, {"Accept": accept})

    def _page(self, kind: Kind, _: str) -> Step:
        token = self._choose(["<continue>"] * 5 + ["nonsense", ""])
        query = {"limit": self._choose(["1", "2"]), "continue": token}
        if self._rng.random() < 0.1:
            query |= {"resourceVersion": "x"}
        return Step("GET", kind.collection, query)

    def _field_selector(self, kind: Kind) -> str:
        common = (
            "metadata.name=a",
            "metadata.name!=a",
            "metadata.name=a,metadata.name=b",
            "metadata.namespace=<ns>",
            "metadata.namespace=other",
            "metadata.uid=x",
            "nonsense",
            "spec.none=1",
        )
        return self._choose(common + kind.fields * 2)

    def _revision_query(self, kind: Kind) -> Json:
        revision = self._choose([f"<rv:{kind.plural}/a>", f"<first:{kind.plural}/a>", "x", "-1"])
        query = {"resourceVersion": revision}
        match = self._choose(["", "Exact", "NotOlderThan", "Other"])
        if match:
            query["resourceVersionMatch"] = match
        return query if self._rng.random() < 0.9 else {"resourceVersionMatch": "Exact"}

    def _watch(self, kind: Kind, _: str, *, from_first: bool = False) -> Step:
        query: Json = {"watch": self._choose(["1", "true"])}
        if from_first or self._rng.random() < 0.5:
            query["resourceVersion"] = f"<first:{kind.plural}/a>"
        elif self._rng.random() < 0.3:
            query["resourceVersion"] = "x"
        elif self._rng.random() < 0.4:
            query |= {
                "sendInitialEvents": "true",
                "resourceVersionMatch": self._choose(["NotOlderThan", "NotOlderThan", "Exact", ""]),
                "allowWatchBookmarks": "true",
            }
        if self._rng.random() < 0.3:
            query["labelSelector"] = self._choose(_LABEL_SELECTORS)
        if self._rng.random() < 0.2:
            query["fieldSelector"] = self._field_selector(kind)
        accept = self._choose(["application/json"] * 5 + [TABLE])
        return Step("WATCH", kind.collection, query, {"Accept": accept})

    def _update(self, kind: Kind, name: str) -> Step:
        head = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": {"name": name}}
        body = merged(head, self._change(kind))
        revision = self._choose(["keep", "keep", "drop", "first"])
        query = self._query()
        path = f"{kind.collection}/{name}"
        return Step("PUT", path, query, body=body, of=f"{kind.plural}/{name}", revision=revision)

    def _change(self, kind: Kind) -> Json:
        roll = self._rng.random()
        if roll < 0.25:
            return {"metadata": copy.deepcopy(self._choose(_METADATA_CHANGES))}
        if roll < 0.4:
            return self._wrong({}, kind)
        return copy.deepcopy(self._choose(kind.changes))

    def _merge(self, kind: Kind, name: str) -> Step:
        return self._patch(kind, name, MERGE, self._change(kind))

    def _strategic(self, kind: Kind, name: str) -> Step:
        return self._patch(kind, name, STRATEGIC, self._change(kind))

    def _patch(self, kind: Kind, name: str, media_type: str, body: Any) -> Step:
        if isinstance(body, dict) and self._rng.random() < 0.15:
            body = merged(body, {"metadata": {"resourceVersion": f"<first:{kind.plural}/{name}>"}})
        path = f"{kind.collection}/{name}"
        return Step("PATCH", path, self._query(), {"Content-Type": media_type}, body)

    def _json_patch(self, kind: Kind, name: str) -> Step:
        general: list[Any] = [
            [],
            [{"op": "add", "path": "/metadata/labels", "value": {"app": "x"}}],
            [{"op": "replace", "path": "/metadata/labels/app", "value": "y"}],
            [{"op": "remove", "path": "/metadata/labels/none"}],
            [{"op": "test", "path": "/metadata/name", "value": "b"}],
            [{"op": "frobnicate", "path": "/metadata/name"}],
            [{"op": "add", "path": "metadata", "value": 1}],
            [{"path": "/metadata/name"}],
            {"op": "add"},
            "nonsense",
            [{"op": "replace", "path": "/metadata/name", "value": "z"}],
        ]
        operations = self._choose(general + list(kind.json_patches) * 3)
        return self._patch(kind, name, JSON_PATCH, copy.deepcopy(operations))

    def _apply(self, kind: Kind, name: str) -> Step:
        body = kind.body(self._rng, name)
        if self._rng.random() < 0.2:
            body = self._wrong(body, kind) | {"kind": kind.kind}
            body["metadata"] = body["metadata"] | {"name": name}
        query: Json = {"fieldManager": self._choose(["one", "two", ""])}
        if self._rng.random() < 0.5:
            query["force"] = self._choose(["true", "true", "false"])
        path = f"{kind.collection}/{name}"
        return Step("PATCH", path, query, {"Content-Type": APPLY}, body)

    def _status(self, kind: Kind, name: str) -> Step:
        path, of = f"{kind.collection}/{name}/status", f"{kind.plural}/{name}"
        body = {"status": copy.deepcopy(self._choose(kind.status or ({"x": 1},)))}
        if self._rng.random() < 0.2:
            body |= {"metadata": {"labels": {"app": "s"}}}
        if self._rng.random() < 0.5 or kind is SERVICES:
            return Step("PATCH", path, self._query(), {"Content-Type": MERGE}, body)
        revision = self._choose(["keep", "drop", "first"])
        head = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": {"name": name}}
        body = merged(head, body)
        return Step("PUT", path, self._query(), body=body, of=of, revision=revision)

    def _delete(self, kind: Kind, name: str) -> Step:
        which = f"{kind.plural}/{name}"
        body = self._choose(
            [
                None,
                None,
                {},
                {"preconditions": {"uid": f"<uid:{which}>"}},
                {"preconditions": {"uid": "other"}},
                {"preconditions": {"resourceVersion": f"<rv:{which}>"}},
                {"preconditions": {"resourceVersion": f"<first:{which}>"}},
                {"propagationPolicy": self._choose(["Foreground", "Background", "Orphan", "Bad"])},
                {"gracePeriodSeconds": self._choose([0, 5, -1])},
                {"dryRun": ["All"]},
                {"gracePeriodSeconds": "x"},
                {"orphanDependents": True, "propagationPolicy": "Orphan"},
                {"kind": "DeleteOptions", "apiVersion": "v1", "orphanDependents": False},
                "nonsense",
            ]
        )
        query = self._choose(
            [{}, {}, {}, {"propagationPolicy": "Foreground"}, {"gracePeriodSeconds": "0"}]
        )
        return Step("DELETE", f"{kind.collection}/{name}", dict(query), body=copy.deepcopy(body))

    def _delete_collection(self, kind: Kind, _: str) -> Step:
        query: Json = {}
        if self._rng.random() < 0.7:
            query["labelSelector"] = self._choose(_LABEL_SELECTORS)
        if self._rng.random() < 0.3:
            query["fieldSelector"] = self._field_selector(kind)
        return Step("DELETE", kind.collection, query)

    def _nonsense(self, kind: Kind, name: str) -> Step:
        at, all_ = f"{kind.collection}/{name}", kind.collection
        body = kind.body(self._rng, name)
        wrong: list[Step] = [
            Step("POST", all_, body="{not json"),
            Step("POST", all_, body=""),
            Step("POST", all_, body="[]"),
            Step("POST", all_, body='"text"'),
            Step("POST", all_, body=body | {"kind": "Other"}),
            Step("POST", all_, body=body | {"kind": ""}),
            Step("POST", all_, body=body | {"apiVersion": "v9"}),
            Step("POST", all_, body=body | {"apiVersion": "other.org/v1"}),
            Step("POST", all_, body=body | {"metadata": []}),
            Step("POST", all_, headers={"Content-Type": "text/plain"}, body=body),
            Step("POST", all_, headers={"Content-Type": "application/yaml"}, body="a: [b"),
            Step("POST", at, body=body),
            Step("POST", kind.everywhere, body=body),
            Step("PUT", all_, body=body),
            Step("PUT", at, body=body | {"metadata": {"name": "other"}}),
            Step("PUT", at, body="{"),
            Step("PUT", f"{all_}/missing", body=body | {"metadata": {"name": "missing"}}),
            Step("PATCH", all_, headers={"Content-Type": MERGE}, body={}),
            Step("PATCH", at, body={}),
            Step("PATCH", at, headers={"Content-Type": "text/plain"}, body={}),
            Step("PATCH", at, headers={"Content-Type": MERGE}, body="{"),
            Step("PATCH", at, headers={"Content-Type": MERGE}, body="[]"),
            Step("PATCH", at, headers={"Content-Type": STRATEGIC}, body="{"),
            Step("PATCH", at, headers={"Content-Type": JSON_PATCH}, body="{"),
            Step("PATCH", at, {"fieldManager": "x"}, {"Content-Type": APPLY}, body="{"),
            Step("PATCH", at, {"fieldManager": "x"}, {"Content-Type": APPLY}, body={}),
            Step("PATCH", f"{all_}/missing", headers={"Content-Type": MERGE}, body={}),
            Step("DELETE", f"{all_}/missing"),
            Step("DELETE", kind.everywhere),
            Step("GET", f"{all_}/missing"),
            Step("GET", f"{all_}/a/none"),
            Step("GET", all_.replace("/v1/", "/v7/")),
            Step("GET", f"{all_}x"),
            Step("GET", f"{all_}x/{name}"),
            Step("POST", all_.replace("<ns>", "missing"), body=body),
            Step("GET", all_.replace("<ns>", "missing")),
            Step("GET", at.replace("<ns>", "missing")),
        ]
        return self._choose(wrong)

    def _namespace(self, _kind: Kind, _name: str) -> Step:
        at = "/api/v1/namespaces/<ns>"
        steps = [
            Step("GET", at),
            Step(
                "PATCH",
                at,
                headers={"Content-Type": MERGE},
                body={"metadata": {"labels": {"a": "b"}}},
            ),
            Step("PATCH", at, headers={"Content-Type": MERGE}, body={"spec": {"finalizers": []}}),
            Step(
                "PATCH",
                at,
                headers={"Content-Type": MERGE},
                body={"metadata": {"finalizers": ["x.org/y"]}},
            ),
            Step(
                "PATCH",
                f"{at}/status",
                headers={"Content-Type": MERGE},
                body={"status": {"phase": "Active"}},
            ),
            Step("POST", "/api/v1/namespaces", body={"metadata": {"name": "<ns>"}}),
            Step("POST", "/api/v1/namespaces", body={"metadata": {"name": "Wrong.Name"}}),
            Step("POST", "/api/v1/namespaces", body={"metadata": {"name": "a.b"}}),
            Step("DELETE", at),
            Step("DELETE", "/api/v1/namespaces"),
            Step(
                "PUT",
                f"{at}/finalize",
                body={"metadata": {"name": "<ns>"}, "spec": {"finalizers": ["kubernetes"]}},
            ),
        ]
        return self._choose(steps)


_MAKERS: tuple[tuple[Callable[[Generator, Kind, str], Step], int], ...] = (
    (Generator._create_anyhow, 8),
    (Generator._create_wrong, 14),
    (Generator._get, 6),
    (Generator._list, 10),
    (Generator._page, 4),
    (Generator._watch, 6),
    (Generator._update, 10),
    (Generator._merge, 10),
    (Generator._strategic, 7),
    (Generator._json_patch, 7),
    (Generator._apply, 8),
    (Generator._status, 8),
    (Generator._delete, 9),
    (Generator._delete_collection, 2),
    (Generator._nonsense, 9),
    (Generator._namespace, 2),
)


def sequence(seed: int, *, compacts: bool = False) -> list[Step]:
    return Generator(seed).steps(compacts=compacts)
