"""The rollout of a RayService: which cluster serves, and how much, as a pure function."""
