"""The team outside of the simulator: the protocol, its simulation, processes, logs, and what they say afterwards."""
