"""Studies: which runs there are, where they are kept, and what runs them."""
