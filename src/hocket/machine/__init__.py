"""Reward machines: values, algebra, decomposition, repair, and the files they are kept in."""
