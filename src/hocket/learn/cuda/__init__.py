"""Training on GPUs, by the functions of `kernels`: a thread for each lane or seed, with the same results, bit for bit.

numba's simulator can run all of it without a GPU. Learnt values and tests stay on the device; only the results of tests
and the policies that are kept are copied back.
"""
