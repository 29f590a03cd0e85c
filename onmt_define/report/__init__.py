"""Tables, figures and one HTML page out of the result files of a config's runs."""
