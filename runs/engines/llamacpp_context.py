"""llama.cpp in this process, through its C interface: a model, and contexts that remember one sequence each.

llama-cpp-python's own class keeps the logits of every position or of the last; here chosen ones are kept.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from ledger.errors import Differs, EnvironmentProblem, UsageProblem
from runs.engines.llamacpp_flags import CACHES, Flags, Room


class Model:
    """A GGUF with its tokenizer. Raises UsageProblem for what is no GGUF, Differs for one that cannot be read."""

    def __init__(self, path: Path) -> None:
        if not path.is_file() or path.suffix != ".gguf":
            raise UsageProblem(f"llama.cpp cannot open the model {path.name}", expected="a .gguf file")
        logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)  # else every tensor is told on stderr
        lib.llama_backend_init()
        self.pointer = lib.llama_model_load_from_file(os.fsencode(path), lib.llama_model_default_params())
        if not self.pointer:
            raise Differs(f"llama.cpp cannot load {path.name}", cause="a cut file, or a model it does not know")
        self._vocabulary = lib.llama_model_get_vocab(self.pointer)
        self.width = int(lib.llama_vocab_n_tokens(self._vocabulary))
        self.trained = int(lib.llama_model_n_ctx_train(self.pointer))

    def encode(self, text: str) -> list[int]:
        """Token ids, with the special tokens that a prompt begins with; special tokens in the text are read."""
        raw = text.encode()
        room = (lib.llama_token * (len(raw) + 8))()
        count = lib.llama_tokenize(self._vocabulary, raw, len(raw), room, len(room), True, True)
        return list(room[:count])

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens say, special ones left out."""
        given, room = (lib.llama_token * len(tokens))(*tokens), ctypes.create_string_buffer(64 * len(tokens) + 64)
        size = lib.llama_detokenize(self._vocabulary, given, len(tokens), room, len(room), False, False)
        return room.raw[:size].decode("utf-8", "replace")

    def ends(self, token: int) -> bool:
        """Whether a token ends a generation."""
        return bool(lib.llama_vocab_is_eog(self._vocabulary, token))

    def close(self) -> None:
        """Let the weights go; contexts first."""
        lib.llama_model_free(self.pointer)


class Context:
    """One sequence that llama.cpp remembers: `length` tokens so far. Always with flash attention."""

    def __init__(self, model: Model, room: Room) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx = room.context or model.trained
        params.n_batch = params.n_ubatch = room.batch
        params.n_threads = params.n_threads_batch = room.threads or len(os.sched_getaffinity(0))
        params.type_k = params.type_v = CACHES[room.cache]
        params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.no_perf = False
        self.pointer = lib.llama_init_from_model(model.pointer, params)
        if not self.pointer:
            raise EnvironmentProblem(
                f"llama.cpp cannot make a context of {params.n_ctx} tokens with a cache of {room.cache}",
                cause="too little memory, or a cache type that does not divide this model's heads",
            )
        self._model, self._batch = model, lib.llama_batch_init(room.batch, 0, 1)
        self.rows = int(lib.llama_n_ctx(self.pointer))
        self.about: dict[str, Any] = {
            "context": self.rows,
            "batch": int(lib.llama_n_batch(self.pointer)),
            "ubatch": int(lib.llama_n_ubatch(self.pointer)),
            "threads": int(lib.llama_n_threads_batch(self.pointer)),
            "cache": room.cache,
        }
        self._size = room.batch
        self.length = 0

    def clear(self) -> None:
        """Forget everything."""
        lib.llama_memory_clear(lib.llama_get_memory(self.pointer), True)
        lib.llama_perf_context_reset(self.pointer)
        self.length = 0

    def check(self, tokens: int) -> None:
        """Raises UsageProblem where so many tokens do not fit."""
        if tokens > self.rows:
            raise UsageProblem(
                f"{tokens} tokens do not fit into the context",
                expected=f"at most {self.rows}",
                hint="flags = { context = N }, as far as the model was trained",
            )

    def feed(self, tokens: Sequence[int], keep: int = 0) -> NDArray[np.float32]:
        """Decode tokens after what is remembered; the logits [keep, vocabulary] of the last so many.

        Raises UsageProblem for more tokens than the context holds.
        """
        self.check(self.length + len(tokens))
        kept = np.empty((keep, self._model.width), np.float32)
        first, done = len(tokens) - keep, 0
        for start in range(0, len(tokens), self._size):
            part = tokens[start : start + self._size]
            wanted = [place for place in range(len(part)) if start + place >= first]
            self._decode(part, set(wanted))
            for place in wanted:
                row = lib.llama_get_logits_ith(self.pointer, place)
                kept[done] = np.ctypeslib.as_array(row, (self._model.width,))
                done += 1
        return kept

    def state(self) -> bytes:
        """What is remembered, as llama.cpp writes it."""
        room = ctypes.create_string_buffer(lib.llama_state_seq_get_size(self.pointer, 0))
        lib.llama_state_seq_get_data(self.pointer, _bytes(room), len(room), 0)
        return room.raw

    def restore(self, state: bytes, length: int) -> None:
        """Remember instead the so many tokens whose `state` this was."""
        self.clear()
        room = ctypes.create_string_buffer(state, len(state))
        if lib.llama_state_seq_set_data(self.pointer, _bytes(room), len(state), 0) != len(state):
            raise EnvironmentProblem("llama.cpp does not take back the state that it gave")
        self.length = length

    def sampler(self, flags: Flags) -> Callable[[], int]:
        """llama.cpp's own sampling, greedy or from a seed: the next token after the last one fed."""
        chain = _Chain(lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params()))
        if flags.seed is None:
            chain.add(lib.llama_sampler_init_greedy())
        else:
            chain.add(lib.llama_sampler_init_top_p(float(flags.top_p), 1))
            chain.add(lib.llama_sampler_init_temp(float(flags.temperature)))
            chain.add(lib.llama_sampler_init_dist(flags.seed))
        return lambda: int(lib.llama_sampler_sample(chain.pointer, self.pointer, -1))

    def prompt_ms(self) -> float:
        """What llama.cpp itself says its prompt took since the last `clear`."""
        return float(lib.llama_perf_context(self.pointer).t_p_eval_ms)

    def close(self) -> None:
        """Let the cache go."""
        lib.llama_batch_free(self._batch)
        lib.llama_free(self.pointer)

    def _decode(self, part: Sequence[int], wanted: set[int]) -> None:
        batch = self._batch
        batch.n_tokens = len(part)
        for place, token in enumerate(part):
            batch.token[place] = token
            batch.pos[place] = self.length + place
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = 0
            batch.logits[place] = place in wanted
        if status := lib.llama_decode(self.pointer, batch):
            raise EnvironmentProblem(f"llama.cpp could not decode {len(part)} tokens: status {status}")
        self.length += len(part)


def _bytes(room: Any) -> Any:
    return ctypes.cast(room, ctypes.POINTER(ctypes.c_uint8))


class _Chain:
    """A chain of samplers, freed with the object."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        self._free = lib.llama_sampler_free

    def add(self, sampler: Any) -> None:
        lib.llama_sampler_chain_add(self.pointer, sampler)

    def __del__(self) -> None:
        self._free(self.pointer)
