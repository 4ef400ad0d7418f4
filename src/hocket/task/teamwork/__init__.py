"""Teams of planned policies: agents whose expectations of their teammates are counted, and the team that they make."""
