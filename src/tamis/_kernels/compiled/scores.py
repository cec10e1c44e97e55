"""Rows → a score for each row and class.

Gaussian scores are taken in blocks of rows that lie side by side, so that a vector unit holds one column of
several rows: it is full whether there are two classes or a thousand, and every sum keeps its order.
"""

import math

import numpy as np

from tamis import threads
from tamis._kernels.jit import FLOATS, FLOATS_1D, FLOATS_OUT, FLOATS_OUT_1D, WORDS, WORDS_1D, kernel
from tamis._kernels.reference import Floats, Words

ROWS = 128  # of a block: 20 columns of them fill half a first-level cache


@kernel(FLOATS, FLOATS, FLOATS, FLOATS, FLOATS_1D, FLOATS_OUT)
def _gaussian_rows(
    x: Floats, mean: Floats, half: Floats, log_scale: Floats, constant: Floats, scores: Floats
) -> bool:
    """Write the scores of rows that miss nothing; whether there are others, whose scores are then NaN."""
    n, d = x.shape
    base = constant.copy()
    for k in range(base.shape[0]):
        for j in range(d):
            base[k] += log_scale[k, j]
    lanes = min(ROWS, n + (-n) % 8)
    beside = np.zeros((d, lanes))
    total = np.zeros(lanes)
    missing = False
    for start in range(0, n, ROWS):
        rows = min(ROWS, n - start)
        for i in range(rows):
            for j in range(d):
                v = x[start + i, j]
                beside[j, i] = v
                missing |= v != v
        for k in range(base.shape[0]):
            total[:] = base[k]
            # Four columns at a time: the totals are fetched and put back a quarter as often.
            for j in range(0, d - 3, 4):
                for i in range(lanes):
                    a = beside[j, i] - mean[k, j]
                    b = beside[j + 1, i] - mean[k, j + 1]
                    c = beside[j + 2, i] - mean[k, j + 2]
                    e = beside[j + 3, i] - mean[k, j + 3]
                    t = total[i] - (a * a) * half[k, j]
                    t -= (b * b) * half[k, j + 1]
                    t -= (c * c) * half[k, j + 2]
                    total[i] = t - (e * e) * half[k, j + 3]
            for j in range(d - d % 4, d):
                for i in range(lanes):
                    a = beside[j, i] - mean[k, j]
                    total[i] -= (a * a) * half[k, j]
            for i in range(rows):
                scores[start + i, k] = total[i]
    return missing


@kernel(FLOATS, FLOATS, FLOATS, FLOATS, FLOATS_1D, FLOATS_OUT)
def _gaussian_gaps(
    x: Floats, mean: Floats, half: Floats, log_scale: Floats, constant: Floats, scores: Floats
) -> None:
    """Write the scores of rows that miss something; the parameters are (d, K), to fill the vector units."""
    n, d = x.shape
    total = constant.copy()
    for i in range(n):
        missing = False
        for j in range(d):
            missing |= x[i, j] != x[i, j]
        if not missing:
            continue
        total[:] = constant
        for j in range(d):
            if x[i, j] == x[i, j]:
                for k in range(total.shape[0]):
                    total[k] += log_scale[j, k]
        for j in range(d):
            v = x[i, j]
            if v == v:
                for k in range(total.shape[0]):
                    a = v - mean[j, k]
                    total[k] -= (a * a) * half[j, k]
        for k in range(total.shape[0]):
            scores[i, k] = total[k]


def gaussian_scores(
    x: Floats, mean: Floats, precision: Floats, log_scale: Floats, constant: Floats
) -> Floats:
    half = 0.5 * precision
    scores = np.empty((len(x), len(constant)))

    def work(start: int, stop: int) -> None:
        rows = x[start:stop]
        if _gaussian_rows(rows, mean, half, log_scale, constant, scores[start:stop]):
            turned = [np.ascontiguousarray(parameter.T) for parameter in (mean, half, log_scale)]
            _gaussian_gaps(rows, turned[0], turned[1], turned[2], constant, scores[start:stop])

    threads.map_row_chunks(len(x), x.size * len(constant), work)
    return scores


@kernel(WORDS, WORDS_1D, FLOATS, FLOATS_1D, FLOATS_OUT)
def _gather_rows(codes: Words, offsets: Words, table: Floats, constant: Floats, scores: Floats) -> None:
    n, d = codes.shape
    total = constant.copy()
    for i in range(n):
        for k in range(total.shape[0]):
            total[k] = constant[k]
        for j in range(d):
            if codes[i, j] >= 0:
                cell = offsets[j] + codes[i, j]
                for k in range(total.shape[0]):
                    total[k] += table[cell, k]
        for k in range(total.shape[0]):
            scores[i, k] = total[k]


def gather_scores(codes: Words, offsets: Words, table: Floats, constant: Floats) -> Floats:
    scores = np.empty((len(codes), len(constant)))

    def work(start: int, stop: int) -> None:
        _gather_rows(codes[start:stop], offsets, table, constant, scores[start:stop])

    threads.map_row_chunks(len(codes), codes.size * len(constant), work)
    return scores


@kernel(FLOATS, FLOATS_OUT_1D)
def _log_sums(scores: Floats, totals: Floats) -> None:
    n, count = scores.shape
    for i in range(n):
        largest = -np.inf
        for k in range(count):
            largest = max(largest, scores[i, k])
        if math.isinf(largest):
            for k in range(count):
                if scores[i, k] != scores[i, k]:
                    largest = np.nan
            totals[i] = largest
        else:
            total = 0.0
            for k in range(count):
                total += math.exp(scores[i, k] - largest)
            totals[i] = largest + math.log(total)


def log_sum_rows(scores: Floats) -> Floats:
    totals = np.empty(len(scores))

    def work(start: int, stop: int) -> None:
        _log_sums(scores[start:stop], totals[start:stop])

    threads.map_row_chunks(len(scores), scores.size, work)
    return totals
