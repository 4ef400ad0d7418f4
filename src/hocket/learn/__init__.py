"""Learners: thin drivers over kernels. `LEARNERS` is a plain dict from names to how they are made."""
