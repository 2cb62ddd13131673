"""The parts of pods that serve or tune models."""
