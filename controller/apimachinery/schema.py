"""Structural OpenAPI schemas that are written as tables, and the definitions around them.

A table has a line for each field, with the fields of a struct below it:

    name!: type keyword=value ... | Description.
      | More of the description.
      ! CEL expression | What it tells those whom it refuses.

`!` behind a name marks a required field. `-` stands for the items of a list, `*` for the values of
a map. Types are the keys of `_TYPES`, and the outermost lines of the table, which may have
parameters: `port(whose)` is used as `port(the head)` and replaces `{whose}` in what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import msgspec

Schema = dict[str, Any]

_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_EITHER: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_TYPES: Final[Mapping[str, Schema]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "time": {"type": "string", "format": "date-time"},
    "quantity": {**_EITHER, "pattern": _QUANTITY},
    "int_or_string": _EITHER,
    "int_or_percentage": {**_EITHER, "pattern": "^[0-9]{1,9}%$"},
    "struct": {"type": "object"},
    "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "map": {"type": "object"},
    "strings": {"type": "object", "additionalProperties": {"type": "string"}},
    "list": {"type": "array"},
    "words": {"type": "array", "items": {"type": "string"}},
}
"""`anything` keeps unknown fields; `strings` and `words` are a map and a list of strings."""

_OUTERMOST: Final = re.compile(r"^[^ #\n].*(?:\n(?:[ #].*)?)*", re.MULTILINE)
"""An outermost line, with all lines below it."""

_FIELD: Final = re.compile(r"(?P<name>.*?): (?P<type>[\w{}]+(\([^)]*\))?)(?P<keywords>.*)")


@dataclass(slots=True)
class _Row:
    """A line of a table with those below it; that of a CEL rule has an expression as its name."""

    name: str
    type: str = ""
    keywords: str = ""
    description: str = ""
    rows: list[_Row] = field(default_factory=list["_Row"])


class SchemaTable:
    """The schemas of a table.

    Args:
        text: the table; its outermost lines begin in the first column.
        parts: parts of schemas by the names that the keyword `with` has for them.
    """

    def __init__(self, text: str, parts: Mapping[str, Schema] = MappingProxyType({})) -> None:
        self._parts = parts
        self._texts: dict[str, tuple[list[str], str]] = {}
        self._encoded: dict[tuple[str, ...], bytes] = {}
        for each in _OUTERMOST.findall(text):
            name, parameters = _call(_row(each.partition("\n")[0]).name)
            self._texts[name] = parameters, each

    def schema(self, name: str, *arguments: str) -> Schema:
        """Return a new copy of the schema of this name.

        Raises:
            KeyError: there is none.
        """
        known = self._encoded.get((name, *arguments))
        if known is None:
            parameters, text = self._texts[name]
            for parameter, argument in zip(parameters, arguments, strict=True):
                text = text.replace(f"{{{parameter}}}", argument)
            built = self._built(_rows(text))
            known = self._encoded[name, *arguments] = msgspec.json.encode(built)
        return msgspec.json.decode(known)

    def _built(self, row: _Row) -> Schema:
        """Return the schema of a line with all below it."""
        built: Schema = {}
        unbuilt = [(row, built)]
        while unbuilt:
            row, schema = unbuilt.pop()
            if row.type in _TYPES:
                schema |= _TYPES[row.type]
            else:
                name, arguments = _call(row.type)
                schema |= self.schema(name, *arguments)
            unbuilt += self._apply(row, schema)
        return built

    def _apply(self, row: _Row, schema: Schema) -> Iterable[tuple[_Row, Schema]]:
        """Add what a line says of a schema; return its fields, which are still empty."""
        if row.description:
            rest = {**schema}
            schema.clear()
            schema |= {"description": ""} | rest | {"description": row.description}
        fields = {each.name: each for each in row.rows if each.type}
        below: dict[str, Schema] = {name.rstrip("!"): {} for name in fields}
        if "-" in below:
            schema["items"] = below["-"]
        elif "*" in below:
            schema["additionalProperties"] = below["*"]
        elif below:
            schema["properties"] = below
        if required := sorted(name[:-1] for name in fields if name.endswith("!")):
            schema["required"] = required
        for word in row.keywords.split():
            schema |= self._keyword(word, schema)
        if rules := [rule(each.name, each.description) for each in row.rows if not each.type]:
            schema["x-kubernetes-validations"] = rules
        return zip(fields.values(), below.values(), strict=True)

    def _keyword(self, word: str, schema: Schema) -> Schema:
        name, _, value = word.partition("=")
        match name:
            case "with":
                return deepcopy(self._parts[value])
            case "nullable":
                return {"nullable": True}
            case "atomic":
                shape = "list" if schema["type"] == "array" else "map"
                return {f"x-kubernetes-{shape}-type": "atomic"}
            case "keys":
                keys = value.split(",")
                return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
            case "enum":
                return {"enum": value.split(",")}
            case _:
                return {name: _value(value)}


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _call(text: str) -> tuple[str, list[str]]:
    """Return the name and the arguments of `name(one, two)`."""
    name, _, rest = text.partition("(")
    return name, rest.removesuffix(")").split(", ") if rest else []


def _rows(text: str) -> _Row:
    """Return the outermost line of a text, with all others below it."""
    first, *lines = text.splitlines()
    outermost = _row(first)
    above = [(0, outermost)]
    for line in lines:
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        if said.startswith("| "):
            above[-1][1].description += said[1:]
            continue
        indent = len(line) - len(line.lstrip())
        while indent <= above[-1][0]:
            above.pop()
        row = _row(said)
        above[-1][1].rows.append(row)
        above.append((indent, row))
    return outermost


def _row(said: str) -> _Row:
    left, _, description = said.partition(" | ")
    if said.startswith("! "):
        return _Row(left[2:], description=description)
    found = _FIELD.fullmatch(left)
    if found is None:
        raise ValueError(f"{said!r} is no line of a table of schemas")
    return _Row(found["name"], found["type"], found["keywords"], description)


_CORE: Final = "controller.apimachinery"


def read_schemas(
    package: str = _CORE, parts: Mapping[str, Schema] = MappingProxyType({})
) -> SchemaTable:
    """Return the schemas of `schemas.txt` in a package, and those of Kubernetes' own types."""
    packages = dict.fromkeys((_CORE, package))
    texts = [resources.files(each).joinpath("schemas.txt").read_text("utf-8") for each in packages]
    return SchemaTable("\n".join(texts), parts)


def add_conditions(schema: Any) -> None:
    """Give every empty schema of a property `conditions` that of all conditions, in place."""
    match schema:
        case dict():
            parts = cast("dict[str, Any]", schema)
            if parts.get("conditions") == {}:
                parts["conditions"] = read_schemas().schema("conditions", "the object")
            add_conditions(list(parts.values()))
        case list():
            for part in cast("list[Any]", schema):
                add_conditions(part)
        case _:
            pass


def rule(expression: str, message: str) -> Schema:
    """Return a CEL rule for `x-kubernetes-validations`."""
    return {"rule": expression, "message": message}


def rules(*each: Schema) -> Schema:
    """Return the part of a schema that holds CEL rules."""
    return {"x-kubernetes-validations": list(each)}


# The parts of a CustomResourceDefinition around its schemas, as plain data.

Definition: TypeAlias = dict[str, Any]
Column: TypeAlias = tuple[str, str, str, int]
"""Name, type, path and priority of a column that `kubectl get` prints."""


def definition(
    group: str,
    kind: str,
    *versions: Definition,
    category: str = "all",
    short_names: Sequence[str] = (),
) -> Definition:
    """Return the definition of a namespaced kind."""
    singular = kind.lower()
    names: Definition = {
        "categories": [category],
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": f"{singular}s",
        "singular": singular,
    }
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": list(versions)},
    }


def served_version(
    name: str, schema: Schema, columns: Sequence[Column], *, is_stored: bool
) -> Definition:
    """Return a served version that has a status."""
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        **printed(columns),
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


def printed(columns: Sequence[Column]) -> Definition:
    """Return the columns of a version; empty if it has none of its own."""
    if not columns:
        return {}
    return {"additionalPrinterColumns": [_column(*column) for column in columns]}


def _column(name: str, kind: str, path: str, priority: int) -> Definition:
    column: Definition = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column
