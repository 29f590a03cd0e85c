"""Companion language models: the input layers of the paper under a recurrent context model."""
