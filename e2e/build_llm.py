#!/usr/bin/env python3
"""Networks of Hugging Face's transformers with random weights, as ONNX Runtime GenAI's model builder writes them.

    pip install onnxruntime-genai onnx onnx_ir torch transformers
    python e2e/build_llm.py DIRECTORY

makes a repository with Llama, Qwen and Mistral of 4 bits, Llama of 32, and one whose weights, logits, keys and values have 16 bits.
"""

import json
import pathlib
import sys

import onnxruntime_genai.models

sys.path[:0] = [
    str(pathlib.Path(__file__).resolve().parent.parent / "examples"),
    str(pathlib.Path(onnxruntime_genai.models.__file__).parent),  # its modules know each other by short names
]
import builder  # noqa: E402
import export_tiny_llm  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

# Name, kind of network, what it has beside the others, precision, and whom it is written for: attention with groups that has 16 bits
# is written for GPUs alone, and runs on processors too.
MODELS = [
    ("llama_int4", "Llama", {}, "int4", "cpu"),
    ("llama_fp32", "Llama", {}, "fp32", "cpu"),
    ("llama_fp16", "Llama", {}, "fp16", "cuda"),
    ("qwen2_int4", "Qwen2", {}, "int4", "cpu"),
    ("mistral_int4", "Mistral", {"sliding_window": 32}, "int4", "cpu"),
]


def pretrained(directory, kind, more):
    """A network as it comes from a hub."""
    directory.mkdir(parents=True)
    words, end = export_tiny_llm.tokenizer(directory, 512)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=words,
        max_position_embeddings=1024,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        tie_word_embeddings=False,
        **more,
    )
    torch.manual_seed(3)
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    with torch.no_grad():  # what it writes is to depend on what it has read
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.mul_(30 if "embed" in name else 4)
    model.save_pretrained(directory)


def main():
    root = pathlib.Path(sys.argv[1])
    for name, kind, more, precision, provider in MODELS:
        source, to = root.parent / "pretrained" / name, root / name / "1"
        pretrained(source, kind, more)
        details = builder.get_hf_details(name, str(source), str(root.parent / "cache"), {})
        builder.create_model(
            name, str(source), str(to), precision, provider, str(root.parent / "cache"), hf_details=details
        )
        file = to / "genai_config.json"
        config = json.loads(file.read_text())
        config["model"]["decoder"]["session_options"]["provider_options"] = []
        file.write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main()
