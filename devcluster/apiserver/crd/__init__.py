"""CustomResourceDefinitions: schemas, rules, printer columns, and serving their resources."""

from devcluster.apiserver.crd.definitions import CrdStrategy, Definitions

__all__ = ["CrdStrategy", "Definitions"]
