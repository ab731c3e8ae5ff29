"""Language models of transformers' own classes, small, with random weights."""

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.models.gemma4.modeling_gemma4 import Gemma4ForCausalLM, Gemma4TextConfig
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig


def _tokens(config, length, rows=1):
    return torch.randint(3, config.vocab_size, (rows, length))


def llama():
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=1024,
        max_position_embeddings=256,
        use_cache=False,
    )
    return LlamaForCausalLM(config).eval(), (_tokens(config, 256),)


def gemma4():
    torch.manual_seed(0)
    config = Gemma4TextConfig(
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        global_head_dim=64,
        vocab_size=1024,
        vocab_size_per_layer_input=1024,
        hidden_size_per_layer_input=32,
        max_position_embeddings=256,
        sliding_window=64,
        use_cache=False,
    )
    return Gemma4ForCausalLM(config).eval(), (_tokens(config, 192),)


def qwen3_5_moe():
    torch.manual_seed(0)
    config = Qwen3_5MoeTextConfig(
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        linear_key_head_dim=32,
        linear_value_head_dim=32,
        linear_num_key_heads=4,
        linear_num_value_heads=8,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=128,
        num_experts=8,
        num_experts_per_tok=2,
        vocab_size=1024,
        max_position_embeddings=256,
        use_cache=False,
    )
    return Qwen3_5MoeForCausalLM(config).eval(), (_tokens(config, 192),)


def gpt2():
    """With its cache, as generation calls it."""
    torch.manual_seed(0)
    config = GPT2Config(n_embd=384, n_layer=4, n_head=6, vocab_size=1024, n_positions=256)
    return GPT2LMHeadModel(config).eval(), (_tokens(config, 192),)


def mamba():
    torch.manual_seed(0)
    config = MambaConfig(hidden_size=192, num_hidden_layers=3, vocab_size=1024, state_size=16, use_cache=False)
    return MambaForCausalLM(config).eval(), (_tokens(config, 96),)


def t5():
    torch.manual_seed(0)
    config = T5Config(
        d_model=256,
        d_kv=32,
        d_ff=768,
        num_layers=3,
        num_decoder_layers=3,
        num_heads=8,
        vocab_size=1024,
        use_cache=False,
    )
    calls = {"input_ids": _tokens(config, 128), "decoder_input_ids": _tokens(config, 48)}
    return T5ForConditionalGeneration(config).eval(), (), calls
