"""Learners: a module for each, and what they share; the compiled loops are in `kernels`."""
