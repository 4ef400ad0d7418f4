"""How good is a team? Test episodes, bounds, exact values."""
