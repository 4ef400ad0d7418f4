"""Teams of planned policies: agents that expect of their teammates what these really do, and the team that they make."""
