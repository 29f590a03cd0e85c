"""The paper's published tables as data, and its parameter counts computed anew."""
