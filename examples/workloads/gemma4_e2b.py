"""The text model of Gemma 4 E2B reading a prompt of 512 tokens, eager attention, bf16.

Sizes of the published `google/gemma-4-E2B-it` text config, random weights: 35 layers of which every fifth attends to
everything and the last 20 use the keys and values of earlier ones, with MLPs twice as wide there.
"""

import torch
from transformers import Gemma4ForCausalLM, Gemma4TextConfig


def build():
    torch.manual_seed(0)
    config = Gemma4TextConfig(
        vocab_size=262_144,
        vocab_size_per_layer_input=262_144,
        hidden_size=1536,
        hidden_size_per_layer_input=256,
        intermediate_size=6144,
        num_hidden_layers=35,
        num_attention_heads=8,
        num_key_value_heads=1,
        head_dim=256,
        global_head_dim=512,
        num_kv_shared_layers=20,
        use_double_wide_mlp=True,
        sliding_window=512,
        layer_types=[*["sliding_attention"] * 4, "full_attention"] * 7,
        final_logit_softcapping=30.0,
        use_cache=False,
    )
    with torch.device("cuda"):
        model = Gemma4ForCausalLM._from_config(config, dtype=torch.bfloat16, attn_implementation="eager")
        input_ids = torch.randint(0, config.vocab_size, (1, 512))
    return model.eval(), (input_ids,)
