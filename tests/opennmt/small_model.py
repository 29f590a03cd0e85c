"""A small Transformer as OpenNMT-py builds it for a training, without its commands."""

import torch

WORDS = 40


def stock_model(**options):
    """The model, its options and its vocabularies."""
    from onmt.inputters.inputter import dict_to_vocabs
    from onmt.model_builder import build_model
    from onmt.opts import train_opts
    from onmt.utils.parse import ArgumentParser

    import onmt_define.opennmt.startup  # noqa: F401

    parser = ArgumentParser()
    train_opts(parser)
    opt, _ = parser.parse_known_args(["-data", "{}", "-src_vocab", "-", "-save_model", "-"])
    small = {"word_vec_size": 32, "hidden_size": 32, "layers": 2, "heads": 4, "transformer_ff": 64}
    small |= {"encoder_type": "transformer", "decoder_type": "transformer"}
    small |= {"position_encoding": True, "dropout": [0.0], "attention_dropout": [0.0]}
    small |= {"define_map_dim": 16, "define_expand_dim": 64, "define_groups": 4}
    small |= {"param_init": 0, "param_init_glorot": True, "label_smoothing": 0.1}
    vars(opt).update(small | options)
    ArgumentParser.update_model_opts(opt)
    ArgumentParser.validate_model_opts(opt)
    tokens = ["<unk>", "<blank>", "<s>", "</s>", *map(str, range(WORDS - 4))]
    vocab = {"src": tokens, "tgt": tokens, "decoder_start_token": "<s>", "data_task": "seq2seq"}
    torch.manual_seed(1)
    vocabs = dict_to_vocabs(vocab)
    return build_model(opt, opt, vocabs, None, -1), opt, vocabs
