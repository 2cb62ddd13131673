"""`manta dev` and `manta demo`, which the production image does not hold."""
