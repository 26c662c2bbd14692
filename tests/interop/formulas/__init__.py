"""Public formulas and sites' trees, compiled and tried by ours and by stock Salt 3008.2."""
