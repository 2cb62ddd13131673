"""What a cluster of a RayService is told to serve, and what it serves."""
