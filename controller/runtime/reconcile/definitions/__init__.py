"""Fields that the installed definition of a kind lacks, and the objects that need them."""
