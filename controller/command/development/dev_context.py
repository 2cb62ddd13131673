"""The context of a running `manta dev` in a kubeconfig, added and taken out as kind does.

Its cluster, user and context carry an extension that names the run. Only entries with that
extension are ever changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.command.development.kubeconfig_file import SECTIONS, opened
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from controller.command.development.kubeconfig_file import KubeconfigFile

_EXTENSION = "manta.dev/run"


@dataclass(frozen=True, slots=True)
class DevContext:
    """The entries that are added to a kubeconfig.

    Attributes:
        name: name of the cluster, the user and the context.
        run: path of the record of the run.
    """

    name: str
    run: Path

    def add(
        self,
        path: Path,
        *,
        cluster: Mapping[str, Any],
        user: Mapping[str, Any],
        is_running: Callable[[Path], bool],
    ) -> str:
        """Add the entries, and make the context the current one.

        Args:
            path: the kubeconfig.
            cluster: content of the cluster.
            user: content of the user.
            is_running: whether the run with that record still lives.

        Returns:
            The context that was the current one; empty for none.

        Raises:
            ConfigurationError: the file cannot be changed, others may read it, or it has
                entries of that name that are not of an ended run.
        """
        with opened(path) as file:
            self._check_mode(path)
            for section in SECTIONS:
                self._check_entry(path, file, section, is_running)
            _take_out(file, self.name)
            previous = file.current_context
            mark: dict[str, Any] = {"run": str(self.run), "previous": previous}
            if not file.existed:
                mark["created"] = True
            context = {"cluster": self.name, "user": self.name, "namespace": "default"}
            contents = {"clusters": cluster, "users": user, "contexts": context}
            for section, content in contents.items():
                file.add(section, self.name, {**content, **_extensions(mark)})
            file.current_context = self.name
            file.write()
        return previous

    def remove(self, path: Path) -> bool:
        """Take the entries out, and put the former current context back.

        Returns:
            Whether there were any.

        Raises:
            ConfigurationError: the file cannot be changed.
        """
        if not path.exists():
            return False
        with opened(path) as file:
            mark = _mark(file, "contexts", self.name)
            if not any(
                _mark(file, section, self.name).get("run") == str(self.run) for section in SECTIONS
            ):
                return False
            heirs = _take_out(file, self.name)
            if file.is_void and mark.get("created") and not heirs:
                path.unlink()
            else:
                file.write()
        return True

    def _check_mode(self, path: Path) -> None:
        if path.exists() and path.stat().st_mode & 0o077:
            raise ConfigurationError(
                f"others may read the kubeconfig {path}, which is to hold a secret token: "
                f"`chmod 600 {path}`, or name another file with --kubeconfig"
            )

    def _check_entry(
        self,
        path: Path,
        file: KubeconfigFile,
        section: str,
        is_running: Callable[[Path], bool],
    ) -> None:
        if self.name not in file.entries(section):
            return
        run = _mark(file, section, self.name).get("run")
        if run is None:
            raise ConfigurationError(
                f"the kubeconfig {path} has a {SECTIONS[section]} {self.name!r} that `manta dev` "
                "did not add: choose another name with --name, or another file with --kubeconfig"
            )
        if run != str(self.run) and is_running(self.run.__class__(run)):
            raise ConfigurationError(
                f"another `manta dev` uses the context {self.name!r} of {path}: choose another "
                "name with --name, or another file with --kubeconfig"
            )


def _take_out(file: KubeconfigFile, name: str) -> list[str]:
    """Remove the entries of that name; returns the contexts that came later."""
    mark = _mark(file, "contexts", name)
    for section in SECTIONS:
        file.remove(section, name)
    previous = str(mark.get("previous") or "")
    contexts = file.entries("contexts")
    if file.current_context == name:
        file.current_context = previous if previous in contexts else ""
    heirs = [other for other in contexts if _mark(file, "contexts", other).get("previous") == name]
    for heir in heirs:
        _inherit(file, heir, contexts[heir], mark)
    return heirs


def _inherit(
    file: KubeconfigFile, name: str, content: dict[str, Any], former: dict[str, Any]
) -> None:
    """Let the end of context `name` restore what the end of the former one would have restored."""
    mark = _mark(file, "contexts", name) | {"previous": former.get("previous", "")}
    if former.get("created"):
        mark["created"] = True
    file.remove("contexts", name)
    file.add("contexts", name, {**content, **_extensions(mark)})


def _extensions(mark: dict[str, Any]) -> dict[str, Any]:
    return {"extensions": [{"name": _EXTENSION, "extension": mark}]}


def _mark(file: KubeconfigFile, section: str, name: str) -> dict[str, Any]:
    """Return the extension of an entry; empty if it has none."""
    for one in file.entries(section).get(name, {}).get("extensions") or ():
        if one.get("name") == _EXTENSION:
            return one.get("extension") or {}
    return {}
