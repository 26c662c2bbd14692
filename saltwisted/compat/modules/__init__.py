"""C{salt.modules}: the execution modules that the loader has, as modules."""
