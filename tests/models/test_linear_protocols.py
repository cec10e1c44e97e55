"""Linear models are pairs of `observe` and `infer`: mypy compares their types with the protocols."""

import importlib
import inspect
import pkgutil

from tamis.models import linear
from tamis.models.linear.laplace import Curvature, Laplace, LaplaceModel
from tamis.models.linear.newton import Evaluation, Newton, QuasiNewton, Search, TruncatedNewton
from tamis.models.linear.objective import LinearRows
from tamis.models.linear.posterior import LinearPosterior
from tamis.models.linear.regression import BayesianLinear, Paired
from tamis.protocols import Iterative, Model
from tamis.stats import Gram

ONE_PASS: list[type[Model[Paired, Gram, LinearPosterior]]] = [BayesianLinear]
BY_LAPLACE: list[type[Iterative[LinearRows, Curvature, Laplace]]] = [LaplaceModel]
BY_LINE_SEARCH: list[type[Iterative[LinearRows, Evaluation, Search]]] = [Newton, QuasiNewton, TruncatedNewton]


def test_every_linear_model_is_compared_with_its_protocol() -> None:
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(linear.__path__, linear.__name__ + ".")
    ]
    models = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and hasattr(kind, "observe") and hasattr(kind, "infer")
        if kind.__module__.startswith(linear.__name__) and not inspect.isabstract(kind)
    }
    assert models == {*ONE_PASS, *BY_LAPLACE, *BY_LINE_SEARCH}
