"""
A map of tastes
===============

Six hundred films lie on an unknown map, in seven clusters; a user likes films in the user's direction. From
a tenth of all ratings, two factors of each film and user are learned: they recover the map up to a
rotation.

The best films for a user are often similar to each other. With some ``diversity``, each film in the list
should also differ from those before it.
"""

import matplotlib.pyplot as plt
import numpy as np

import tamis
from tamis.plots.canvas import COLOURS

rng = np.random.default_rng(4)
clusters = 7
turn = np.linspace(0.0, 2.0 * np.pi, clusters, endpoint=False)
kind = rng.integers(0, clusters, 600)
reach = rng.uniform(0.5, 1.6, len(kind))
angle = turn[kind] + 0.16 * rng.normal(size=len(kind))
films = reach[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
users = rng.normal(size=(500, 2))

expected = 3.0 + 0.3 * rng.normal(size=len(films)) + 0.8 * users @ films.T
seen = np.argwhere(rng.random(expected.shape) < 0.1)
stars = np.clip(np.round(expected[tuple(seen.T)] + 0.4 * rng.normal(size=len(seen))), 1, 5)

model = tamis.MatrixFactorization(2, ridge=0.02, random_state=0).fit(seen, stars)
held = np.argwhere(rng.random(expected.shape) < 0.02)
wrong = model.predict(held) - np.clip(expected[tuple(held.T)], 1, 5)
print(f"{len(seen)} ratings of {expected.size} pairs; RMSE elsewhere {np.sqrt(np.mean(wrong**2)):.2f} stars")

# %%
# On the left the true map, then the learned one, rotated to match. Rings are ten films recommended to one
# user; the arrow is the direction of the user's factors.

learned, own = model.item_factors_, model.user_factors_
left, _, right = np.linalg.svd(learned.T @ films[model.items_])
map_of = learned @ left @ right
scale = np.sqrt(np.mean(films**2) / np.mean(map_of**2))
someone = int(np.argsort(np.linalg.norm(users, axis=1))[-25])  # a user with large factors

figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
places = {item: row for row, item in enumerate(model.items_.tolist())}
colours = [COLOURS[k % len(COLOURS)] for k in kind]
axes[0].scatter(*films.T, c=colours, s=9, alpha=0.75, linewidths=0)
axes[0].set_title("600 films, true map")
for picture, diversity in zip(axes[1:], (0.0, 0.8), strict=True):
    picture.scatter(*(scale * map_of.T), c=[colours[i] for i in model.items_], s=9, alpha=0.45, linewidths=0)
    items, scores = model.recommend(someone, 10, diversity=diversity)
    rows = [places[item] for item in items.tolist()]
    picture.scatter(*(scale * map_of[rows].T), s=70, facecolors="none", edgecolors="#222222", linewidths=1.4)
    taste = own[someone] @ left @ right
    picture.annotate(
        "",
        1.1 * taste / np.linalg.norm(taste),
        (0.0, 0.0),
        arrowprops={"arrowstyle": "-|>", "color": "#222222", "linewidth": 1.6},
    )
    picture.set_title(f"learned; ten for user {someone}, diversity {diversity:g}")
    print(f"diversity {diversity:g}: mean expected rating {scores.mean():.2f}")
for picture in axes:
    picture.set(xlim=(-2.1, 2.1), ylim=(-2.1, 2.1), xticks=[], yticks=[], aspect="equal")
plt.show()

# %%
# The explanation of the first one: the contributions of the user's ratings, largest first. All
# contributions, the level and the film's offset sum to the score.

print(model.explain(someone, model.recommend(someone, 1)[0][0]))
