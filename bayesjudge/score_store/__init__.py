"""Scores that arrive day by day, kept in a folder that survives a crash."""

from bayesjudge.score_store.keeping import Store, create_store, is_store, open_store
from bayesjudge.score_store.manifest import Append, Manifest

__all__ = ["Append", "Manifest", "Store", "create_store", "is_store", "open_store"]
