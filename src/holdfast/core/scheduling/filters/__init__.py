"""What keeps a slot from a node: one small file for each question. The order is the order of asking."""
