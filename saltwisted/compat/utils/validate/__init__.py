"""C{salt.utils.validate}: whether texts and paths are what they should be."""
