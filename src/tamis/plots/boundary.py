"""A model of two columns → its probabilities over the plane, and the lines where its decision changes."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array, refuse_unless_one_per_row
from tamis.plots import canvas
from tamis.stats import Keys
from tamis.tables import Table

_MARGIN = 0.08  # how far the plot extends beyond the data, relative to their range
_OPACITY = 0.36  # the opacity of a class's colour where the class is certain


@dataclass(eq=False)
class BoundaryDisplay:
    """Probabilities as colours, decisions as lines, rows as points, Gaussians as ellipses.

    >>> import tamis
    >>> rows = [[0, 0], [1, 2], [2, 1], [4, 4], [5, 6], [6, 5]]
    >>> model = tamis.GaussianNB().fit(rows, ["a", "a", "a", "b", "b", "b"])
    >>> BoundaryDisplay.from_estimator(model, rows, grid=50).log_probabilities.shape
    (50, 50, 2)
    """

    x: Array  # (grid,): positions along the horizontal axis, of the first column
    y: Array  # (grid,): positions along the vertical axis, of the second column
    log_probabilities: Array  # (grid, grid, K): log p(class) for y, x and class
    classes: tuple[Any, ...]  # the labels of the K classes
    rows: Array  # (n, 2)
    # (n,): the index of each row's class, -1 if it has no label, or one that the model does not know.
    group: NDArray[np.int64] | None
    means: Array | None  # (K, 2)
    covariances: Array | None  # (K, 2, 2)
    names: tuple[str, str]  # of the two columns
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: object,
        y: object = None,
        grid: int = 200,
        ax: Any = None,
        ellipses: bool = True,
        points: bool = True,
        **style: Any,
    ) -> "BoundaryDisplay":
        """Draw the predictions of a fitted model of two columns over the plane of the rows.

        With `y`, rows have the colours of their labels; those without one of the model's labels are grey.
        `style` goes to matplotlib's `scatter`. Any model with `predict_log_proba` and `classes_` can be
        drawn.
        """
        table = Table.of(X)
        if table.width != 2:
            raise ValueError(f"got rows of {table.width} columns, expected 2, the axes of the plot")
        if grid < 2:
            raise ValueError(f"got grid={grid}, expected at least 2 points per side")
        rows = table.numbers()
        low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
        margin = _MARGIN * np.where(high > low, high - low, 1.0)
        horizontal, vertical = (
            np.linspace(a, b, grid)
            for a, b in zip((low - margin).tolist(), (high + margin).tolist(), strict=True)
        )
        plane = np.stack(np.meshgrid(horizontal, vertical), axis=-1).reshape(-1, 2)
        classes = tuple(np.asarray(model.classes_).tolist())
        logs = np.asarray(model.predict_log_proba(plane)).reshape(grid, grid, len(classes))
        means, covariances = _find_gaussians(model)
        names = ("column 0", "column 1") if table.names is None else tuple(map(str, table.names))
        group = None if y is None else _find_classes(y, classes, table.rows)
        display = cls(
            horizontal, vertical, logs, classes, rows, group, means, covariances, (names[0], names[1])
        )
        return display.plot(ax, ellipses=ellipses, points=points, **style)

    def plot(
        self, ax: Any = None, ellipses: bool = True, points: bool = True, **style: Any
    ) -> "BoundaryDisplay":
        """Draw the plot; `style` is passed to matplotlib's `scatter`."""
        ax = canvas.make_axes(ax, (6.0, 4.8))
        self._draw_probabilities(ax)
        self._draw_boundaries(ax)
        if points:
            self._draw_rows(ax, style)
        if ellipses:
            self._draw_ellipses(ax)
        ax.set(
            xlabel=self.names[0],
            ylabel=self.names[1],
            xlim=(self.x[0], self.x[-1]),
            ylim=(self.y[0], self.y[-1]),
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_probabilities(self, ax: Any) -> None:
        """Draw the colour of the most probable class; it is white where all classes are equally probable.

        Its opacity grows with the probability, in steps of a tenth.
        """
        probabilities = np.exp(self.log_probabilities)
        uniform = 1.0 / len(self.classes)
        strength = np.clip(
            np.round((probabilities.max(axis=-1) - uniform) / max(1.0 - uniform, 1e-9) * 10.0) / 10.0,
            0.0,
            1.0,
        )
        convert = canvas.import_matplotlib("colors").to_rgb
        colours = np.array([convert(canvas.choose_colour(k)) for k in range(len(self.classes))])
        picture = 1.0 - _OPACITY * strength[..., None] * (1.0 - colours[probabilities.argmax(axis=-1)])
        ax.imshow(
            picture,
            extent=(self.x[0], self.x[-1], self.y[0], self.y[-1]),
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            zorder=0,
        )

    def _draw_boundaries(self, ax: Any) -> None:
        """Draw lines where a class is as probable as the best of the others."""
        k = len(self.classes)
        logs = np.maximum(self.log_probabilities, -1e6)
        for c in range(k if k > 2 else k - 1):
            difference = logs[..., c] - np.delete(logs, c, axis=-1).max(axis=-1)
            if difference.min() < 0 < difference.max():
                ax.contour(
                    self.x, self.y, difference, levels=[0.0], colors=[canvas.DARK], linewidths=1.4, zorder=2
                )

    def _draw_rows(self, ax: Any, style: dict[str, Any]) -> None:
        options = {"s": 16, "linewidths": 0.4, "edgecolors": "white", "zorder": 3, **style}
        group = np.full(len(self.rows), -1) if self.group is None else self.group
        is_unlabelled = group < 0
        if is_unlabelled.any():
            label = None if self.group is None else "no label"
            ax.scatter(
                *self.rows[is_unlabelled].T,
                **{"color": canvas.PALE, **options, "s": 0.5 * options["s"], "linewidths": 0},
                label=label,
            )
        for k, name in enumerate(self.classes):
            is_in_class = group == k
            if is_in_class.any():
                class_style = {"color": canvas.choose_colour(k), "marker": canvas.choose_marker(k), **options}
                ax.scatter(*self.rows[is_in_class].T, **class_style, label=str(name))

    def _draw_ellipses(self, ax: Any) -> None:
        """Draw one and two standard deviations about each mean."""
        if self.means is None or self.covariances is None:
            return
        angle = np.linspace(0.0, 2.0 * np.pi, 121)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        for k, (mean, covariance) in enumerate(zip(self.means, self.covariances, strict=True)):
            variances, axes = np.linalg.eigh(covariance)
            ellipse = (axes * np.sqrt(np.maximum(variances, 0.0))) @ circle
            for scale, line in ((1.0, "-"), (2.0, "--")):
                outline = mean[:, None] + scale * ellipse
                ax.plot(*outline, line, color=canvas.choose_colour(k), linewidth=1.2, zorder=4)
            ax.plot(*mean, "+", color=canvas.DARK, markersize=7, zorder=5)


def _find_gaussians(model: Any) -> tuple[Array | None, Array | None]:
    """Return the means and covariances of a model's classes, if they are Gaussians in these two columns.

    In a GaussianNB, the means are `theta_`, and the variances of columns are `var_`.
    """
    means = next((getattr(model, name) for name in ("means_", "theta_") if hasattr(model, name)), None)
    names = ("covariances_", "covariance_", "var_")
    given = next((getattr(model, name) for name in names if hasattr(model, name)), None)
    if means is None or given is None or np.shape(means)[-1] != 2:
        return None, None
    k, covariances = len(means), np.asarray(given, dtype=np.float64)
    if covariances.shape == (k, 2, 2):
        return np.asarray(means), covariances
    if covariances.shape == (2, 2) and not _has_column_variances(model):
        return np.asarray(means), np.broadcast_to(covariances, (k, 2, 2))
    if covariances.shape == (k,):
        covariances = np.stack([covariances, covariances], axis=1)
    if covariances.shape != (k, 2):
        return None, None
    return np.asarray(means), covariances[:, :, None] * np.eye(2)


def _has_column_variances(model: Any) -> bool:
    """Return whether an array (2, 2) holds the variances of two classes, not a matrix."""
    return hasattr(model, "var_") or getattr(model, "covariance", "tied") in ("diag", "spherical")


def _find_classes(y: object, classes: tuple[Any, ...], rows: int) -> NDArray[np.int64]:
    """Return the index of each row's label among the classes; -1 where it is missing or none of them."""
    keys, group = Keys.encode(y)
    refuse_unless_one_per_row(len(group), rows, "labels")
    index = np.array([classes.index(key) if key in classes else -1 for key in keys] + [-1], dtype=np.int64)
    return index[group]
