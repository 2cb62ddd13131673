"""What the status of a RayService says."""
