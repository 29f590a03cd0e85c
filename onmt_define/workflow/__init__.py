"""What the workflow's rules need: configuration, corpora, training, scores."""
