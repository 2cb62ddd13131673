"""The product holds no code that only tests use.

A function, class or constant of a module counts as used if another statement of the product names
it; a method, if the product asks any object for something of that name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.docs.tree import ROOT

PRODUCT = ("workqueue", "informers", "controller")
_BY_SERVER = "by the base class, for each request"
_BY_PROMETHEUS = "by the client of Prometheus"
_BY_OTHERS = "by kinds of others (docs/adding-a-kind.md)"
CALLED_FROM_OUTSIDE = {
    "controller.command.own_kinds.run": _BY_OTHERS,
    "controller.runtime.children.Seen.converge": _BY_OTHERS,
    "controller.runtime.children.Seen.report": _BY_OTHERS,
    "controller.command.development.demos.model_server.StandInHandler.do_GET": _BY_SERVER,
    "controller.command.development.demos.model_server.StandInHandler.do_POST": _BY_SERVER,
    "controller.command.development.demos.model_server.StandInHandler.log_request": _BY_SERVER,
    "controller.kube.http._Body.asend": "by the protocol of asynchronous generators",
    "controller.kube.http._Body.athrow": "by the protocol of asynchronous generators",
    "controller.runtime.collectors.ObjectCollector.describe": _BY_PROMETHEUS,
    "controller.runtime.collectors.StateCollector.describe": _BY_PROMETHEUS,
    "informers.prometheus.InformerCollector.describe": _BY_PROMETHEUS,
    "workqueue.prometheus.QueueCollector.describe": _BY_PROMETHEUS,
}


@dataclass
class Statement:
    """A statement at the top of a module.

    Attributes:
        defines: names that it gives to the module.
        names: that it uses; `module.name` for a name of a module or an object.
        methods: that it defines, as `Class.name`.
    """

    defines: set[str]
    names: set[str] = field(default_factory=set[str])
    methods: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, node: ast.stmt) -> Statement:
        found = cls(set(defined_by(node)))
        found.read(node)
        return found

    def read(self, node: ast.AST, owner: str = "") -> None:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                self.names.add(f"{name}.{attribute}")
                return
            case ast.Attribute(attr=attribute):
                self.names.add(f".{attribute}")
            case ast.Name(id=name, ctx=ast.Load()):
                self.names.add(name)
            case ast.Constant(value=str(text)) if text.isidentifier():
                self.names |= {text, f".{text}"}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if owner:
                self.methods.add(f"{owner}.{name}")
            case _:
                pass
        inside = node.name if isinstance(node, ast.ClassDef) else ""
        for each in ast.iter_child_nodes(node):
            self.read(each, inside)


class Module:
    """The statements of a module, and what it imports: module and name by its own name."""

    def __init__(self, text: str) -> None:
        self.statements: list[Statement] = []
        self.imports: dict[str, tuple[str, str]] = {}
        for node in flat(ast.parse(text).body):
            if isinstance(node, ast.ImportFrom) and node.module:
                self._import(node)
            elif "__all__" not in defined_by(node):
                self.statements.append(Statement.of(node))
                for each in ast.walk(node) if not isinstance(node, ast.Assign) else ():
                    if isinstance(each, ast.ImportFrom):
                        self._import(each)
        self.defined = {name for each in self.statements for name in each.defines}

    def _import(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.imports[alias.asname or alias.name] = node.module or "", alias.name


class Program:
    """Modules by their names."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._modules = {name: Module(text) for name, text in texts.items()}

    def unused(self) -> set[str]:
        used, asked = set[str](), set[str]()
        for name, module in self._modules.items():
            for each in module.statements:
                names = each.names - each.defines
                used.update(*(self._meant(name, one) for one in names))
                asked |= {one.rpartition(".")[2] for one in each.names if "." in one}
        return {
            *(each for each in self._defined() if each not in used),
            *(each for each in self._methods() if each.rpartition(".")[2] not in asked),
        }

    def _defined(self) -> Iterator[str]:
        for name, module in self._modules.items():
            yield from (f"{name}.{each}" for each in module.defined if not each.startswith("__"))

    def _methods(self) -> Iterator[str]:
        for name, module in self._modules.items():
            for each in module.statements:
                yield from (f"{name}.{one}" for one in each.methods if ".__" not in one)

    def _meant(self, module: str, name: str) -> Iterable[str]:
        """The definitions that a name stands for; all of a module that is passed on."""
        first, _, rest = name.partition(".")
        if first == "globals":
            return {f"{module}.{each}" for each in self._modules[module].defined}
        found = self._origin(module, first)
        if found not in self._modules:
            return {found}
        defined = {rest} if rest else self._modules[found].defined
        return {self._origin(found, each) for each in defined}

    def _origin(self, module: str, name: str) -> str:
        """The module and name under which something is defined, or the name of a module."""
        while module in self._modules and name not in self._modules[module].defined:
            if f"{module}.{name}" in self._modules:  # a package may import its own modules
                break
            if name not in self._modules[module].imports:
                break
            module, name = self._modules[module].imports[name]
        return f"{module}.{name}"


def flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for each in body:
        if isinstance(each, ast.If | ast.Try):
            yield from flat([*each.body, *each.orelse])
        else:
            yield each


def defined_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign():
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def product() -> dict[str, str]:
    paths = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): (
            path.read_text()
        )
        for path in paths
    }


@pytest.mark.slow
def test_everything_in_the_product_is_used_by_the_product():
    unused = Program(product()).unused()
    # `controller.testing` is for tests, of others and of ours.
    assert {each for each in unused if not each.startswith("controller.testing.")} == (
        CALLED_FROM_OUTSIDE.keys()
    )
