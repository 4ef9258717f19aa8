"""Other published policies, and those without privacy."""
