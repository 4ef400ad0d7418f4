"""Team tasks: grids, agents, events, labelling, tables, episodes in plain Python, and those that come with hocket."""
