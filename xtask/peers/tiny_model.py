"""Writes a language model of a few hundred kilobytes: Llama's architecture, random weights, a vocabulary made from a few texts.

    tiny_model.py FILE SEED FOLDER...

The same seed, folders and packages give the same bytes. It knows nothing and says nothing of sense, but it is a model as servers
load them: bytes and merged pairs of them as tokens (so that a token is a few bytes of the texts in FOLDER), the marks of ChatML,
and answers that come to an end. For the last, the first number of every state is held constant, which makes the first column of
the output a bias: towards the end of the answer, towards the mark that begins calls, towards what closes strings, lists and
objects under a grammar, and towards tools whose names begin with `route`.
"""

import re
import sys
from collections import Counter
from pathlib import Path

import gguf
import numpy

MERGES, WIDTH, HEADS, LAYERS, INNER, WINDOW = 400, 32, 2, 2, 64, 32_768
# The first tokens. `llamacpp.rs` has the numbers of END and CALLS.
NOTHING, START, END, CALLS, CALLED = MARKS = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_calls>", "</tool_calls>"
# Calls are a list of objects between marks, from which the server derives its grammar.
TEMPLATE = """\
{%- for tool in tools or [] %}{{ '<|im_start|>system\n' + (tool | tojson) + '<|im_end|>\n' }}{% endfor %}\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + (message.content or '') }}\
{%- for call in message.tool_calls or [] %}{{ '<tool_calls>[' if loop.first else ', ' }}\
{{ '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}' }}\
{{ ']</tool_calls>' if loop.last }}{% endfor %}\
{{ '<|im_end|>\n' }}{% endfor %}\
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


def main(file, seed, folders):
    texts = [path.read_text() for folder in folders for path in sorted(Path(folder).rglob("*")) if path.suffix in (".json", ".csv")]
    write(file, seed, *vocabulary(texts))


def write(path, seed, tokens, merges):
    """Writes the model to `path`."""
    chance = numpy.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([kind(token) for token in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(NOTHING))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in tensors(chance, tokens):
        writer.add_tensor(name, tensor.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocabulary(texts):
    """The tokens and the merges that lead to them: the pairs that come most often, one after the other."""
    letters = byte_letters()
    words = Counter(word for text in texts for word in re.findall(r" ?\w+| ?[^\s\w]+|\s+", text))
    spelt = {word: [letters[byte] for byte in word.encode()] for word in words}
    merges = []
    for _ in range(MERGES):
        pairs = Counter()
        for word, parts in spelt.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        # Of equally frequent ones the first in order, so that nothing depends on the order of a set.
        first, second = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(f"{first} {second}")
        for parts in spelt.values():
            merge(parts, first, second)
    made = [merged.replace(" ", "") for merged in merges]
    return [*MARKS, *letters, *dict.fromkeys(made)], merges


def merge(parts, first, second):
    """Joins every `first` before a `second`, in place."""
    at = 0
    while at + 1 < len(parts):
        if parts[at] == first and parts[at + 1] == second:
            parts[at : at + 2] = [first + second]
        at += 1


def byte_letters():
    """A printable letter for each byte, as GPT-2's vocabulary has them."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)]


def tensors(chance, tokens):
    """The weights by name. No layer writes to the first number of a state."""

    def random(rows, columns, scale=1.0):
        return chance.normal(0.0, scale / numpy.sqrt(columns), (rows, columns))

    def into_state(columns):
        tensor = random(WIDTH, columns)
        tensor[0] = 0.0
        return tensor

    embedding = chance.normal(0.0, 1.0, (len(tokens), WIDTH))
    embedding[:, 0] = numpy.sqrt(WIDTH)
    yield "token_embd.weight", embedding
    for layer in range(LAYERS):
        ones = numpy.ones(WIDTH)
        yield f"blk.{layer}.attn_norm.weight", ones
        for part in "qkv":
            yield f"blk.{layer}.attn_{part}.weight", random(WIDTH, WIDTH)
        yield f"blk.{layer}.attn_output.weight", into_state(WIDTH)
        yield f"blk.{layer}.ffn_norm.weight", ones
        yield f"blk.{layer}.ffn_gate.weight", random(INNER, WIDTH)
        yield f"blk.{layer}.ffn_up.weight", random(INNER, WIDTH)
        yield f"blk.{layer}.ffn_down.weight", into_state(INNER)
    yield "output_norm.weight", numpy.ones(WIDTH)
    output = random(len(tokens), WIDTH)
    output[:, 0] = [bias(token) for token in tokens]
    yield "output.weight", output


def kind(token):
    """The marks of calls are text, because the server reads them from the answer."""
    if token in (CALLS, CALLED):
        return gguf.TokenType.USER_DEFINED
    return gguf.TokenType.CONTROL if token in MARKS else gguf.TokenType.NORMAL


def bias(token):
    """How much a token is preferred whatever was said before."""
    if token in (START, NOTHING):
        return -5.0
    if token == END:
        return 0.9
    if token == CALLS:
        return 0.7
    if "route".startswith(token):
        return 0.5
    # The closers of JSON, alone or with more; then whatever is plain text before the halves of other characters.
    if token in ('"', "]", "}"):
        return 1.0
    if token[0] in '"]}':
        return 0.6
    return 0.0 if token.isascii() else -1.0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
