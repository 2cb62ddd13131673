"""Odd values anywhere in the objects of a scene, and the caches that then hold them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from controller.apimachinery.custom_object import dig
from controller.kube.objects import ObjectMeta
from controller.kube.resources import Resource
from controller.ray.api.labels import GROUP
from controller.runtime.kind import Unreadable
from controller.testing.reads import FakeReads
from informers import Codec, Undecodable
from tests.fuzzing.scenes import Json, Scene
from tests.ray.plain_data import paths, with_value

LEVELS: Final = 2_000
"""Depth of nested data; API servers accept 10,000."""

ODD: Final = {
    "null": "null",
    "true": "true",
    "negative": "-1",
    "beyond 64 bits": "1" + 40 * "0",
    "huge": "1e300",
    "fraction": "0.5",
    "empty": '""',
    "text": '"odd"',
    "long": f'"{100_000 * "x"}"',
    "controls": r'"\u0000\u202e\u2028\ufeff\udbff\udfff"',
    "far future": '"9999-12-31T23:59:59Z"',
    "list": "[]",
    "list of null": "[null]",
    "mixed list": '["odd", 7, {}]',
    "mapping": "{}",
    "nameless member": '{"": null}',
    "odd member": '{"odd": {"odd": []}}',
    "deep lists": f"{LEVELS * '['}{LEVELS * ']'}",
    "deep mappings": LEVELS * '{"a":' + "1" + LEVELS * "}",
}
"""JSON that no user means, but any writer may store where a definition gives no type."""

LESS: Final = ("missing", "half", "other half")
"""What a definition prunes: the value, or every second member of a list or mapping."""

_IDENTITY: Final = {"name", "namespace", "uid", "resourceVersion"}
"""Metadata that the API server itself sets."""

_ASKS_FOR_DELETION: Final = {"deletionTimestamp", "suspend", GROUP}
"""A worker with the label of another group is one of a group that the specification lacks."""

Change = tuple["Resource[Any]", int, tuple[Any, ...], str]
"""Resource and position of an object, a path in it, and the name of the value that it gets, or of
what it loses."""


def odd_changes(scene: Scene) -> SearchStrategy[list[Change]]:
    """One to three odd values anywhere in the objects."""
    places = [
        (resource, position, path)
        for resource, objects in scene.objects.items()
        for position, obj in enumerate(objects)
        for path in paths(obj)
        if _may_be_odd(path)
    ]
    change = st.tuples(st.sampled_from(places), st.sampled_from([*ODD, *LESS]))
    flat = change.map(lambda drawn: (*drawn[0], drawn[1]))
    return st.lists(flat, min_size=1, max_size=3)


def _may_be_odd(path: tuple[Any, ...]) -> bool:
    """Return whether the value there is neither an identity nor asks for a deletion itself."""
    if not path or path[0] in {"apiVersion", "kind"} or path == ("metadata",):
        return False
    is_identity = path[0] == "metadata" and path[1] in _IDENTITY
    return path[-1] not in _ASKS_FOR_DELETION and not is_identity


def caches(scene: Scene, changes: list[Change]) -> FakeReads:
    """The caches of an operator after these changes."""
    reads = FakeReads(scene.kind)
    for resource, objects in scene.objects.items():
        reads.add(resource)
        codec = Codec(resource.view)
        for position, obj in enumerate(objects):
            own = [each[2:] for each in changes if each[:2] == (resource, position)]
            _hold(reads, resource, codec.item(stored(obj, own)), obj)
    return reads


def stored(obj: Any, changes: list[tuple[tuple[Any, ...], str]]) -> bytes:
    """The object as JSON. Values are put in as text: no encoder takes all of them."""
    for path, name in sorted(changes, key=lambda change: -len(change[0])):  # the inner ones first
        found = dig(obj, *path)
        obj = with_value(obj, path, _half(found, name) if "half" in name else f"<{name}>")
    text = msgspec.json.encode(_without_missing(obj)).decode()
    for name, value in ODD.items():
        text = text.replace(f'"<{name}>"', value)
    return text.encode()


def _half(found: Any, name: str) -> Any:
    """Every second member: the first, third and so on, or the others."""
    others = name == "other half"
    if isinstance(found, dict):
        return dict(list(found.items())[others::2])
    return found[others::2] if isinstance(found, list) else "<missing>"


def _without_missing(found: Any) -> Any:
    if isinstance(found, dict):
        return {k: _without_missing(v) for k, v in found.items() if v != "<missing>"}
    if isinstance(found, list):
        return [_without_missing(each) for each in found if each != "<missing>"]
    return found


def _hold(reads: FakeReads, resource: Resource[Any], decoded: Any, obj: Json) -> None:
    """Hold an object as the caches do: as far as it can be shown."""
    found: Any = decoded
    if not isinstance(found, Undecodable):
        reads.add(resource, found)
    else:
        meta = found.metadata if isinstance(found.metadata, ObjectMeta) else ObjectMeta()
        reads.odd.setdefault(resource, {})[obj["metadata"]["name"]] = Unreadable(meta, found.reason)
