"""Training on a graphics processor: the functions of `kernels`, a thread for each lane or seed, with the same bits.

Threads run what the processor's kernels are made of, so that numbers are the same and numba's simulator can run all of
it where there is no graphics processor. What is learnt stays on the device, and so do tests of it; what comes back are
the tests' results and the policies that were asked for.
"""
