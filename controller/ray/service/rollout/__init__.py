"""The rollout of a RayService: which cluster serves which share, as a pure function."""
