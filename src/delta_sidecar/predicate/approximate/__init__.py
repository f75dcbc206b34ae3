"""Predicates that engines push down as trees of their own, approximated by ours: exactly, or for pruning alone.

`arrow_tree` reads a pyarrow expression as a tree; `arrow` translates it.
"""
