"""Learning the machine of a task by experiments on its map, where only places, gates and events are known."""
