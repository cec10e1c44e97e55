"""RMSE of rating predictions on five folds: LensKit's BiasedMF, Surprise's SVD, and ours.

The peers live in an environment of their own, where ours is found by PYTHONPATH:

    python -m venv PEERS && PEERS/bin/pip install lenskit scikit-surprise scikit-learn narwhals array-api-compat numba
    PYTHONPATH=src PEERS/bin/python experiments/0008-recommender/compare.py DATA --set anime --models als lenskit …

DATA holds `ratings-anime/` and `movietweetings-100k/`. Folds are drawn once, by number, for all. With --develop, only the
training part of the first fold is read, and split once more: that is where parameters were chosen. --more says how many
ratings' worth of ridge every row has besides its own.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

FOLDS = 5


def read(data: Path, name: str) -> pd.DataFrame:
    if name == "anime":
        frame = pd.read_csv(data / "ratings-anime" / "anime_ratings.dat", sep="\t", skiprows=1, header=None)
    else:
        path = data / "movietweetings-100k" / "ratings.dat"
        frame = pd.read_csv(path, sep="::", header=None, engine="python")
    frame = frame.iloc[:, :3].set_axis(["user", "item", "rating"], axis=1)
    return frame.astype({"rating": float}).drop_duplicates(["user", "item"], keep="last").reset_index(drop=True)


def folds(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(n) % FOLDS)


def lenskit(train, test, embedding_size=50, epochs=10, regularization=0.1, damping=5.0):
    from lenskit.als import BiasedMFScorer
    from lenskit.data import ItemList, from_interactions_df
    from lenskit.pipeline import predict_pipeline  # noqa: F401  (that it is there says which LensKit this is)

    model = BiasedMFScorer(
        embedding_size=embedding_size, epochs=epochs, regularization=regularization, damping=damping
    )
    columns = {"user": "user_id", "item": "item_id"}
    model.train(from_interactions_df(train.rename(columns=columns)))
    level = train.rating.mean()
    found = pd.Series(np.nan, index=test.index)
    for user, rows in test.groupby("user"):
        scored = model(user, ItemList(item_ids=rows.item.to_numpy()))
        found[rows.index] = scored.scores("numpy")
    items = train.groupby("item").rating.agg(["sum", "count"])
    means = (items["sum"] - level * items["count"]) / (items["count"] + damping)
    return found.fillna(level + test.item.map(means).fillna(0.0)).to_numpy()  # whom it does not know


def surprise(train, test, **parameters):
    from surprise import SVD, Dataset, Reader

    reader = Reader(rating_scale=(train.rating.min(), train.rating.max()))
    model = SVD(random_state=0, **parameters)
    model.fit(Dataset.load_from_df(train[["user", "item", "rating"]], reader).build_full_trainset())
    return np.array([model.predict(u, i, clip=False).est for u, i in zip(test.user, test.item)])


def ours(train, test, **parameters):
    import tamis

    model = tamis.MatrixFactorization(random_state=0, clip=False, **parameters).fit(train)
    return model.predict(test[["user", "item"]])


def recommended(train, high) -> str:
    """What the ten best of 2,000 people are like: how few have rated them, and how high their scores are."""
    import tamis

    model = tamis.MatrixFactorization(random_state=0).fit(train)
    items, scores = model.recommend(train.user.unique()[:2000], 10)
    counts = train.groupby("item").size().reindex(items.ravel()).to_numpy()
    return f"rated by fewer than 5: {(counts < 5).mean():.3f}, scores above the scale: {(scores > high).mean():.3f}"


def models() -> dict:
    return {
        "lenskit": lambda a, b: lenskit(a, b),
        "surprise": lambda a, b: surprise(a, b),
        "als": lambda a, b: ours(a, b, method="als"),
        "gibbs": lambda a, b: ours(a, b, method="gibbs"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", dest="name", choices=["anime", "movies"], default="anime")
    parser.add_argument("--models", nargs="+", default=["lenskit", "surprise", "als", "gibbs"])
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--develop", action="store_true")
    parser.add_argument("--more", type=float)
    given = parser.parse_args()
    if given.more is not None:
        from tamis.models.factors import alternating

        alternating._EXTRA = given.more
    frame = read(given.data, given.name)
    fold = folds(len(frame))
    if given.develop:
        frame = frame[fold != 0].reset_index(drop=True)
        fold = folds(len(frame), seed=1)
    low, high = frame.rating.min(), frame.rating.max()
    for name in given.models:
        run, errors, begun = models()[name], [], time.perf_counter()
        for number in range(given.folds):
            train, test = frame[fold != number], frame[fold == number]
            found = np.clip(run(train, test), low, high)  # for all alike
            errors.append(float(np.sqrt(np.mean(np.square(found - test.rating.to_numpy())))))
        took = (time.perf_counter() - begun) / given.folds
        each = " ".join(f"{error:.4f}" for error in errors)
        print(f"{given.name:7s} {name:9s} {np.mean(errors):.4f}  ({each})  {took:.1f} s a fold", flush=True)
    if given.develop:
        print(recommended(frame[fold != 0], high))


if __name__ == "__main__":
    main()
