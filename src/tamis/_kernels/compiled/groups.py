"""Rows → the rows group by group: cells of one group are then written while they are in the cache."""

import numpy as np

from tamis._kernels.jit import part
from tamis._kernels.reference import Words


@part
def sort_by_group(group: Words, groups: int) -> Words:
    """The rows group by group."""
    place = np.zeros(groups + 1, np.int64)
    for i in range(group.shape[0]):
        place[group[i] + 1] += 1
    for g in range(groups):
        place[g + 1] += place[g]
    order = np.empty(group.shape[0], np.int64)
    for i in range(group.shape[0]):
        order[place[group[i]]] = i
        place[group[i]] += 1
    return order
