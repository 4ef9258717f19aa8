"""Tables, figures and claims of papers, recomputed: a file for each paper or question, found by its entry point."""
