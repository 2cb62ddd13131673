"""The other components of a cluster, as ordinary clients of its API server.

A simulated kubelet with a scheduler of its own, garbage collection, Jobs, EndpointSlices and the
namespace life cycle. Begin reading in `running.py`; the life of a simulated pod is in
`lifecycle.py`.
"""

from devcluster.nodes.components import ANNOTATION_PREFIX, NodeSettings
from devcluster.nodes.running import COMPONENTS, run_nodes
from devcluster.nodes.simulated_kubelet import SimulatedKubelet

__all__ = ["ANNOTATION_PREFIX", "COMPONENTS", "NodeSettings", "SimulatedKubelet", "run_nodes"]
