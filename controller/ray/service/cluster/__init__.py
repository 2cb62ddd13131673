"""The RayClusters of a RayService: their source, and their writes."""
