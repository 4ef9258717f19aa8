"""What every policy stands on: plans become learners and books, decisions, files."""
