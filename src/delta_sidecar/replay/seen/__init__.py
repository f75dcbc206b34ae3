"""The keys of the tail, exactly and in bounded memory: `seen` is the set, `runs` what it consists of."""
