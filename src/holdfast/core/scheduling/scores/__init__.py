"""What makes one node better than another: one small file for each. All in whole numbers (RULES 17)."""
