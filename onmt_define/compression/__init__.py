"""Compositional code learning: a trained input layer as short codes and a few codebooks."""
