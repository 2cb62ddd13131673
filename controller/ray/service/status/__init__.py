"""The status of a RayService."""
