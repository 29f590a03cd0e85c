"""A generated English-German corpus: a small grammar of our own, so no text has to be shipped."""
