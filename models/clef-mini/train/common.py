"""Model shape, construction with the reference classes, and the piece tokenizer shared by training and checks."""

VOCAB, HID, LAYERS = 16384, 256, 8
LINEAR, FULL = "linear_attention", "full_attention"
TEXT = dict(hidden_size=HID, intermediate_size=768, num_hidden_layers=LAYERS, layer_types=[LINEAR, FULL] * (LAYERS // 2), num_attention_heads=4, num_key_value_heads=2,
            head_dim=128, linear_key_head_dim=64, linear_value_head_dim=64, linear_num_key_heads=4, linear_num_value_heads=4, linear_conv_kernel_dim=4,
            vocab_size=VOCAB, max_position_embeddings=8192, tie_word_embeddings=False, rms_norm_eps=1e-6, pad_token_id=None,
            rope_parameters=dict(rope_type="default", rope_theta=10000000, partial_rotary_factor=0.25, mrope_interleaved=True, mrope_section=[6, 5, 5]))
VISION = dict(depth=3, hidden_size=128, intermediate_size=256, num_heads=4, out_hidden_size=HID, patch_size=16, spatial_merge_size=2, temporal_patch_size=2,
              num_position_embeddings=256)
HEAD = {"hidden_size": HID, "width": 192, "routing_layers": 2, "layers": 2, "heads": 4, "feedforward": 512}


def build(tok_id):
    """the reference configuration and model for this shape; tok_id: token text -> id"""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
    t = dict(TEXT, eos_token_id=tok_id("<|endoftext|>"))
    c = Qwen3_5Config(text_config=t, vision_config=VISION, tie_word_embeddings=False, image_token_id=tok_id("<|image_pad|>"), video_token_id=tok_id("<|video_pad|>"),
                      vision_start_token_id=tok_id("<|vision_start|>"), vision_end_token_id=tok_id("<|vision_end|>"))
    return c, Qwen3_5ForConditionalGeneration(c)


class Tok:
    """piece tokenizer with a cache and the call the record encoder makes"""
    class R:
        __slots__ = ("input_ids",)

        def __init__(self, x): self.input_ids = x

    def __init__(self, path):
        from tokenizers import Tokenizer
        self.t = Tokenizer.from_file(path)
        self.c = {}

    def __call__(self, text, add_special_tokens=False):
        x = self.c.get(text)
        if x is None:
            x = self.t.encode(text, add_special_tokens=False).ids
            if len(self.c) > 200000: self.c.clear()
            self.c[text] = x
        return Tok.R(list(x))
