"""The RayClusters of a RayService: what each is made from, and how it is written."""
