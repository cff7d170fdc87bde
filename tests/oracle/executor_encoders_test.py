"""Tiny encoders, and an encoder with a decoder, whole: loss and every gradient of Cairn's executor
against Transformers on the CPU, with the weights, positions and inputs that Cairn drew."""

import functools

import pytest
import transformers
from executor_tensors import check_model, saved_tensors
from torch.nn import functional

BATCH, TOKENS, TARGETS, VOCAB = 2, 8, 6, 50
EPSILON = 1e-3  # of norms; no class of a config has it

BERT = dict(hidden_size=16, num_attention_heads=4, intermediate_size=24, num_hidden_layers=2,
            vocab_size=VOCAB, max_position_embeddings=16, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, layer_norm_eps=EPSILON)
VIT = dict(hidden_size=16, num_attention_heads=4, intermediate_size=24, num_hidden_layers=2,
           image_size=12, patch_size=4, num_labels=5,
           layer_norm_eps=EPSILON)
T5 = dict(d_model=16, d_kv=4, num_heads=4, d_ff=24, num_layers=2, num_decoder_layers=2,
          vocab_size=VOCAB, relative_attention_num_buckets=8, dropout_rate=0.0,
          decoder_start_token_id=0, pad_token_id=0, layer_norm_epsilon=EPSILON)

BERT_NAMES = [
    (r"words\.", "bert.embeddings.word_embeddings."),
    (r"kinds\.", "bert.embeddings.token_type_embeddings."),
    (r"places\.", "bert.embeddings.position_embeddings."),
    (r"embed_norm\.", "bert.embeddings.LayerNorm."),
    (r"layer\.(\d+)\.attn\.q\.", r"bert.encoder.layer.\1.attention.self.query."),
    (r"layer\.(\d+)\.attn\.k\.", r"bert.encoder.layer.\1.attention.self.key."),
    (r"layer\.(\d+)\.attn\.v\.", r"bert.encoder.layer.\1.attention.self.value."),
    (r"layer\.(\d+)\.attn\.o\.", r"bert.encoder.layer.\1.attention.output.dense."),
    (r"layer\.(\d+)\.h\.", r"bert.encoder.layer.\1.attention.output.LayerNorm."),
    (r"layer\.(\d+)\.mlp\.up\.", r"bert.encoder.layer.\1.intermediate.dense."),
    (r"layer\.(\d+)\.mlp\.down\.", r"bert.encoder.layer.\1.output.dense."),
    (r"layer\.(\d+)\.x\.", r"bert.encoder.layer.\1.output.LayerNorm."),
    (r"dense\.", "cls.predictions.transform.dense."),
    (r"norm\.", "cls.predictions.transform.LayerNorm."), (r"word_logits\.", "cls.predictions."),
    (r"pooled\.", "bert.pooler.dense."), (r"logits\.", "classifier.")]

VIT_NAMES = [
    (r"pixels\.", "vit.embeddings.patch_embeddings.projection."),
    (r"cls_token\.weight", "vit.embeddings.cls_token"),
    (r"placed\.weight", "vit.embeddings.position_embeddings"),
    (r"layers\.(\d+)\.norm1\.", r"vit.layers.\1.layernorm_before."),
    (r"layers\.(\d+)\.norm2\.", r"vit.layers.\1.layernorm_after."),
    (r"layers\.(\d+)\.attn\.([qkvo])\.", r"vit.layers.\1.attention.\2_proj."),
    (r"layers\.(\d+)\.mlp\.up\.", r"vit.layers.\1.mlp.fc1."),
    (r"layers\.(\d+)\.mlp\.down\.", r"vit.layers.\1.mlp.fc2."), (r"norm\.", "vit.layernorm."),
    (r"logits\.", "classifier.")]

BLOCK = r"(encoder|decoder)\.(\d+)\."
T5_NAMES = [
    (r"shared\.", "shared."),
    (r"(encoder|decoder)_rows\.", r"\1.block.0.layer.0.SelfAttention.relative_attention_bias."),
    (BLOCK + r"attn\.norm\.", r"\1.block.\2.layer.0.layer_norm."),
    (BLOCK + r"attn\.([qkvo])\.", r"\1.block.\2.layer.0.SelfAttention.\3."),
    (BLOCK + r"cross\.norm\.", r"\1.block.\2.layer.1.layer_norm."),
    (BLOCK + r"cross\.([qkvo])\.", r"\1.block.\2.layer.1.EncDecAttention.\3."),
    *[(rf"{stack}\.(\d+)\.x\.{ours}\.", rf"{stack}.block.\1.layer.{place}.{theirs}.")
      for stack, place in (("encoder", 1), ("decoder", 2))
      for ours, theirs in (("norm", "layer_norm"), ("plain", "DenseReluDense.wi"),
                           ("gate", "DenseReluDense.wi_0"), ("up", "DenseReluDense.wi_1"),
                           ("down", "DenseReluDense.wo"))],
    (r"(encoder|decoder)_norm\.", r"\1.final_layer_norm.")]


def bert_logits(model, saved):
    return model(input_ids=saved["ids"], token_type_ids=saved["types"],
                 position_ids=saved["positions"]).logits


def vit_logits(model, saved):
    return model(pixel_values=saved["images"]).logits


def t5_logits(model, saved):
    """With the rows of the tables of positions, and the numbers in the place of cross attention's
    zeros, that Cairn drew."""
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        attention = stack.block[0].layer[0].SelfAttention
        table, rows = attention.relative_attention_bias, saved[f"{name}_buckets"]
        attention.compute_bias = lambda *_, table=table, rows=rows, **__: (
            table(rows).permute(2, 0, 1).unsqueeze(0))
    cross = model.decoder.block[0].layer[1].EncDecAttention
    whole = cross.forward

    def forward(*positional, **named):
        return whole(*positional, **named | dict(position_bias=saved["zeros"]))

    cross.forward = forward
    return model(input_ids=saved["ids"], decoder_input_ids=saved["decoder_ids"],
                 use_cache=False).logits


MODELS = {
    "bert, words": ("BertForMaskedLM", BERT, BERT_NAMES, bert_logits),
    "bert, classes": ("BertForSequenceClassification", BERT | dict(num_labels=5), BERT_NAMES,
                      bert_logits),
    "vit": ("ViTForImageClassification", VIT, VIT_NAMES, vit_logits),
    "t5": ("T5ForConditionalGeneration", T5, T5_NAMES, t5_logits),
    "t5, gated": ("T5ForConditionalGeneration", T5 | dict(feed_forward_proj="gated-gelu"),
                  T5_NAMES, t5_logits),
}


def loss_of(model, saved, logits_of):
    logits = logits_of(model, saved)
    return functional.cross_entropy(logits.flatten(0, -2), saved["labels"].flatten())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_those_of_transformers(name, attention, tmp_path):
    kind, dims, names, logits_of = MODELS[name]
    model_type = getattr(transformers, kind)
    config = model_type.config_class(**dims, architectures=[kind], attn_implementation=attention)
    config.to_json_file(tmp_path / "config.json")
    options = ["--batch", BATCH, "--attention", attention]
    options += [] if name == "vit" else ["--tokens", TOKENS]
    options += ["--set", f"target_tokens={TARGETS}"] if name.startswith("t5") else []
    saved = saved_tensors(tmp_path / "tensors", tmp_path / "config.json", *options)
    model = model_type(config).train()
    check_model(saved, model, names,
                functools.partial(loss_of, saved=saved, logits_of=logits_of),
                zero=("key.bias", "k_proj.bias"))
