"""JSON merge patches and JSON patches: their application and their difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

# Applies JSON merge patches (RFC 7386), and finds the smallest one.
#
# Works on plain data. None in a patch removes a member.


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return `document` with `patch` applied; neither is modified."""
    if not isinstance(patch, Mapping):
        return patch
    result: dict[str, Any] = dict(_mapping(document))
    for name, value in cast("Mapping[str, Any]", patch).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def difference(current: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest merge patch after which the members of `wanted` are as wanted.

    Members that `wanted` does not name stay unchanged. An empty member of `current` counts as
    absent when None is wanted, because views fill in defaults.
    """
    present = _mapping(current)
    patch: dict[str, Any] = {}
    for name, value in wanted.items():
        now = present.get(name)
        if now == value:
            continue
        if isinstance(value, Mapping) and isinstance(now, Mapping):
            inner = difference(now, cast("Mapping[str, Any]", value))
            if inner:
                patch[name] = inner
        elif value is None:
            if now:
                patch[name] = None
        elif not _same(now, value):
            patch[name] = value
    return patch


def replacement(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns `present` into `wanted`: other members are removed."""
    patch: dict[str, Any] = {name: None for name in present if name not in wanted}
    for name, value in wanted.items():
        before = present.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            value = replacement(_mapping(before), _mapping(value))  # noqa: PLW2901
        patch[name] = value
    return patch


def _same(a: Any, b: Any) -> bool:
    """Return whether two values are the same JSON; views have tuples where plain data has lists."""
    if a == b:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        first, second = cast("Sequence[Any]", a), cast("Sequence[Any]", b)
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        left, right = _mapping(a), _mapping(b)
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    return False


def holds_list(patch: Any) -> bool:
    """Return whether `patch` has a list, which replaces a whole list and needs a precondition."""
    if isinstance(patch, Mapping):
        return any(holds_list(value) for value in cast("Mapping[str, Any]", patch).values())
    return isinstance(patch, list | tuple)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


# Applies JSON patches (RFC 6902), as leniently as the API server.
#
# The API server's library adds a missing key on `replace` and treats a missing key as null in
# `test`. The error messages are those of that library.

Json: TypeAlias = dict[str, Any]


class PatchError(Exception):
    """The patch cannot be applied to this object."""


class MalformedPatchError(PatchError):
    """The patch is not a list of operations."""


def json_patch(target: Any, operations: Any) -> Any:
    """Apply operations in order to `target`, in place.

    Raises:
        PatchError: an operation is malformed, a path does not exist or a test fails.
    """
    if not isinstance(operations, list):
        raise MalformedPatchError(
            "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    for operation in cast("list[Json]", operations):
        target = _apply(target, operation)
    return target


def _apply(target: Any, operation: Json) -> Any:
    kind = operation.get("op")
    path = str(operation.get("path", ""))
    if kind == "test":
        _test(target, path, operation.get("value"))
        return target
    if kind in {"add", "replace"}:
        return _set(target, path, operation.get("value"), insert=kind == "add")
    if kind == "remove":
        _remove(target, path, "remove")
        return target
    if kind in {"move", "copy"}:
        source = str(operation.get("from", ""))
        value = _get(target, source, str(kind))
        if kind == "move":
            _remove(target, source, "move")
        else:
            value = msgspec.json.decode(msgspec.json.encode(value))
        return _set(target, path, value, insert=True)
    raise PatchError(f"Unexpected kind: {kind}")


def _tokens(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise PatchError(f"path {path} does not start with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _missing(kind: str, path: str) -> PatchError:
    return PatchError(
        f"{kind} operation does not apply: doc is missing path: {path}: missing value"
    )


def _get(target: Any, path: str, kind: str) -> Any:
    for token in _tokens(path):
        target = _child(target, token, path, kind)
    return target


def _child(parent: Any, token: str, path: str, kind: str) -> Any:
    if isinstance(parent, dict) and token in parent:
        return cast("Json", parent)[token]
    if isinstance(parent, list):
        items = cast("list[Any]", parent)
        return items[_index(items, token, path, kind, len(items) - 1)]
    raise _missing(kind, path)


def _index(items: list[Any], token: str, path: str, kind: str, last: int) -> int:
    try:
        index = int(token)
    except ValueError:
        raise PatchError(f'strconv.Atoi: parsing "{token}": invalid syntax') from None
    if index < 0:
        index += len(items)
    if not 0 <= index <= last:
        raise PatchError(
            f"{kind} operation does not apply: doc is missing path: {path}: "
            f"Unable to access invalid index: {token}: invalid index referenced"
        )
    return index


def _test(target: Any, path: str, value: Any) -> None:
    """Test a value; a missing key counts as null, but a missing parent fails."""
    *above, last = _tokens(path) or [""]
    try:
        parent = _get(target, "".join(f"/{escaped(token)}" for token in above), "test")
        if isinstance(parent, dict) and last not in parent and path:
            found = None
        else:
            found = _get(target, path, "test")
    except PatchError:
        raise PatchError(f"testing value {path} failed: test failed") from None
    if not same_json(found, value):
        raise PatchError(f"testing value {path} failed: test failed")


def escaped(token: str) -> str:
    """Return a token as it stands in a JSON pointer."""
    return token.replace("~", "~0").replace("/", "~1")


def same_json(left: Any, right: Any) -> bool:
    """Return whether JSON values are equal; true does not equal 1 as it does in Python."""
    return bool(left == right) and _same_booleans(left, right)


def _same_booleans(left: Any, right: Any) -> bool:
    """Return whether values that are equal in Python have booleans in the same places."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("Json", left), cast("Json", right)
        return all(_same_booleans(one[key], other[key]) for key in one)
    if isinstance(left, list) and isinstance(right, list):
        return all(map(_same_booleans, cast("list[Any]", left), cast("list[Any]", right)))
    return True


def _set(target: Any, path: str, value: Any, *, insert: bool) -> Any:
    tokens = _tokens(path)
    if not tokens:
        return value
    kind = "add" if insert else "replace"
    parent = target
    for token in tokens[:-1]:
        parent = _child(parent, token, path, kind)
    last = tokens[-1]
    if isinstance(parent, dict):
        holder = cast("Json", parent)
        holder[last] = value
    elif isinstance(parent, list):
        _set_item(cast("list[Any]", parent), last, path, value, insert=insert)
    else:
        raise _missing(kind, path)
    return target


def _set_item(items: list[Any], token: str, path: str, value: Any, *, insert: bool) -> None:
    if not insert:
        items[_index(items, token, path, "replace", len(items) - 1)] = value
    elif token == "-":  # noqa: S105 - RFC 6902's name for the end of a list
        items.append(value)
    else:
        items.insert(_index(items, token, path, "add", len(items)), value)


def _remove(target: Any, path: str, kind: str) -> None:
    tokens = _tokens(path)
    if not tokens:
        raise _missing(kind, path)
    parent = target
    for token in tokens[:-1]:
        parent = _child(parent, token, path, kind)
    if isinstance(parent, list):
        items = cast("list[Any]", parent)
        del items[_index(items, tokens[-1], path, kind, len(items) - 1)]
    elif isinstance(parent, dict) and tokens[-1] in parent:
        del cast("Json", parent)[tokens[-1]]
    else:
        raise _missing(kind, path)
