"""C{salt.states}: the states that the loader has, as modules."""
