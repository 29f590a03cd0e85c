"""The OpenNMT-py plug-in: an embedding registry that the stock commands see by themselves."""
