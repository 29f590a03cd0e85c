"""A faster training loop for Transformers: sentences packed end to end, without padding.

`training_loop: packed` exchanges OpenNMT-py's loader and step; its options, checkpoints, logs,
validation and optimizer stay. Texts become ids once, in memory-mapped files (`token_files`);
batches hold as many whole sentences as fit into a fixed number of tokens (`batches`); the model's
own layers run on such a row of tokens (`model`), each sentence attending to itself alone
(`attention`), and nothing waits for the GPU between two reports (`trainer`).
"""
