"""Columns that `kubectl get` prints for built-in kinds."""

from controller.devcluster.apiserver.columns.builtin import BUILTIN_COLUMNS

__all__ = ["BUILTIN_COLUMNS"]
