"""Lets equal strings of different objects be one string: half the memory of a cached pod.

Decoders make a new string for each `"Running"` and each label. `sys.intern` would share them,
but keeps what it has seen for ever on newer Pythons; this pool forgets.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

_LIMIT = 4096
_LONGEST = 64
_IDENTITY = frozenset({"name", "uid", "resource_version"})
"""Fields of `metadata` that no two objects have in common."""


class StringPool:
    """Shares strings among all objects passed through `share`. Forgets all when it is full."""

    def __init__(self) -> None:
        self._strings: dict[str, str] = {}
        self._fields: dict[type[Any], tuple[str, ...]] = {}

    def share(self, struct: msgspec.Struct) -> None:
        """Replace the strings inside a freshly decoded Struct. Nobody else may hold it yet."""
        if len(self._strings) > _LIMIT:
            self._strings.clear()
        self._share_fields(struct)

    def _share_fields(self, struct: msgspec.Struct) -> None:
        kind = type(struct)
        fields = self._fields.get(kind)
        if fields is None:
            fields = self._fields[kind] = _fields_worth_sharing(kind)
        for field in fields:
            value = getattr(struct, field)
            if value and (shared := self._shared(value)) is not value:
                msgspec.structs.force_setattr(struct, field, shared)

    def _shared(self, value: Any) -> Any:
        kind = cast("type[Any]", type(value))
        if kind is str:
            return self._strings.setdefault(value, value) if len(value) <= _LONGEST else value
        if kind is dict:
            # Label and annotation maps: a new dict because the keys are to be shared too.
            return {self._shared(key): self._shared(item) for key, item in value.items()}
        if kind is tuple and value and isinstance(value[0], msgspec.Struct):
            for item in cast("tuple[msgspec.Struct, ...]", value):
                self._share_fields(item)
        elif isinstance(value, msgspec.Struct):
            self._share_fields(value)
        return value


def _fields_worth_sharing(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    skipped = _IDENTITY if "resource_version" in fields else frozenset[str]()
    return tuple(
        name
        for name, type_ in fields.items()
        if name not in skipped and type_ not in {int, float, bool}
    )
