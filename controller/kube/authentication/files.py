"""Reads files that change while the process runs: tokens and certificate authorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


class RotatedFile:
    """A small file that is read again after each replacement.

    While the file is missing, empty or unreadable, the last good content stays in use: the
    kubelet and other tools replace files, and a short gap must not end the process.

    Args:
        path: the file.
        what: name for messages, such as `service account token`.

    Raises:
        ConfigurationError: the file cannot be read now.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._seen = self._signature()
        try:
            self._content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"Cannot read the {what} {path}: {error.strerror}. Check that the file is there "
                "and readable by this process."
            ) from error
        if not self._content.strip():
            raise ConfigurationError(f"The {what} {path} is empty. Fill it or remove the setting.")

    def read(self) -> bytes:
        """Return the current content. Costs one `stat` while nothing changes."""
        signature = self._signature()
        if signature != self._seen:
            self._reread(signature)
        return self._content

    def _reread(self, signature: tuple[int, ...]) -> None:
        try:
            content = self.path.read_bytes()
        except OSError:
            return
        if content.strip():
            self._content = content
            self._seen = signature

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return (found.st_ino, found.st_mtime_ns, found.st_size)
