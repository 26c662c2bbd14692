"""C{salt.grains}: those of Salt's grain modules that sites import to change what they say."""
