"""What stands on a node, told to its agent: one ordered stream, from the server that leads."""
