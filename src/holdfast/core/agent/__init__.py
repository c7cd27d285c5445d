"""What an agent decides: which steps bring its node from what runs to what is bound there. Pure."""
