"""People and their visits: who was counted how often, and what each may still add. Public, and compiled but for shares."""
