"""What a trained model's input layers have learned: correlation between their dimensions."""
