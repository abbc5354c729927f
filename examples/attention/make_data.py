#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Makes the files in data/: queries, keys and values from a fixed seed, and NumPy's own attention over them.

    python3 make_data.py [directory]

The 97 keys are not a multiple of any small number of ranks, so that the split is uneven.
"""

import pathlib
import sys

import numpy as np

BATCHES, HEADS, QUERIES, KEYS, DEPTH = 2, 3, 40, 97, 32


def attention(q, k, v, causal):
    """softmax(q k^T / sqrt(D)) v in float64; the causal mask lets the last query see the last key."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        queries, keys = scores.shape[-2:]
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data")
    directory.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(20260)
    q, k, v = (
        random.standard_normal((BATCHES, HEADS, positions, DEPTH), dtype=np.float32)
        for positions in (QUERIES, KEYS, KEYS)
    )
    q *= 2  # sharper than chance: some rows listen to few keys
    np.save(directory / "q.npy", q)
    np.save(directory / "k.npy", k)
    np.save(directory / "v.npy", v)
    np.save(directory / "o_numpy.npy", attention(q, k, v, causal=False))
    np.save(directory / "o_numpy_causal.npy", attention(q, k, v, causal=True))


if __name__ == "__main__":
    main()
