"""The volumes of pods and their claims: directories of this machine."""
