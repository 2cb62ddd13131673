"""The wanted and the reported applications of a RayService's cluster."""
