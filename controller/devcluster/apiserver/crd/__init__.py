"""CustomResourceDefinitions: schemas, rules, printer columns, and serving what they define."""

from controller.devcluster.apiserver.crd.definitions import CrdStrategy, Definitions

__all__ = ["CrdStrategy", "Definitions"]
