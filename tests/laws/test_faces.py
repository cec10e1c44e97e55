"""Every face learns by adding and forgets by taking away."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from tamis import estimators
from tamis.estimators.generative import GenerativeClassifier
from tamis.testing import faces
from tamis.testing.faces import FACES, FaceCase

Law = Callable[[FaceCase, np.random.Generator], None]
LAWS = (
    faces.shards_leave_no_trace,
    faces.merging_is_learning,
    faces.forgetting_restores_the_model,
    faces.an_outlier_is_forgotten,
    faces.cross_validation_is_refitting,
)


@pytest.mark.usefixtures("summed")
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("case", FACES, ids=lambda case: case.name)
def test_faces_keep_the_law(case: FaceCase, law: Law) -> None:
    for seed in range(3):
        law(case, np.random.default_rng(seed))


def test_every_public_classifier_is_registered() -> None:
    public = {getattr(estimators, name) for name in estimators.__all__}
    kinds = {kind for kind in public if inspect.isclass(kind) and issubclass(kind, GenerativeClassifier)}
    assert kinds == {type(case.make()) for case in FACES}
