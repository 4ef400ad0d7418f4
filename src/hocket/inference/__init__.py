"""Machines from logs: what a log shows, the smallest local machines that explain it, and the next question to ask."""
