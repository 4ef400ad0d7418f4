"""Teams of planned policies: agents plan alone, each with a model of its teammates, and the team is played."""
