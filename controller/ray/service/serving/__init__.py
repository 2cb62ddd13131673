"""The applications that a cluster of a RayService is to serve, and those that it serves."""
