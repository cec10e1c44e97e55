"""
Why this class?
===============

Given the class, columns are independent, so their evidence adds: the log-odds of two classes are a sum of
one term per column and the prior. So a decision of naive Bayes can be explained column by column. Here a
loan is judged from columns of several kinds; a missing value has no effect, and so no bar.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from tamis.estimators import NaiveBayes
from tamis.plots import ExplanationDisplay

rng = np.random.default_rng(7)
n = 800
late = rng.random(n) < 0.3
table = pd.DataFrame(
    {
        "income (thousands)": rng.normal(np.where(late, 31.0, 42.0), 9.0).round(1),
        "years in the present job": rng.gamma(np.where(late, 1.5, 3.0), 2.5).round(1),
        "own home": rng.random(n) < np.where(late, 0.25, 0.55),
        "purpose": [
            rng.choice(["car", "house", "travel"], p=[0.3, 0.2, 0.5] if x else [0.4, 0.4, 0.2]) for x in late
        ],
        "loans before this one": rng.poisson(np.where(late, 2.2, 0.9)),
        "reminders sent for the last electricity bill": rng.poisson(np.where(late, 1.4, 0.3)),
        "region": rng.choice(["north", "south", "east", "west"], n),
    }
)
model = NaiveBayes(integers="poisson", estimate="predictive").fit(table, np.where(late, "late", "on time"))

asked = pd.DataFrame(
    {
        "income (thousands)": [33.0, 52.0],
        "years in the present job": [1.0, np.nan],
        "own home": [False, True],
        "purpose": ["car", "travel"],
        "loans before this one": [3, 0],
        "reminders sent for the last electricity bill": [2, 1],
        "region": ["north", "west"],
    }
)
explanation = model.explain(asked, for_="late", against="on time")
print(explanation.contributions.T.round(2))
print("log-odds", explanation.log_odds.round(2), "probability", model.predict_proba(asked)[:, 0].round(3))

# %%
# For the first customer, two reminders and three loans are the strongest evidence for "late".

ExplanationDisplay.from_estimator(model, asked, row=0, for_="late", against="on time")
plt.show()

# %%
# For the second customer, whose years in the job are missing: the four strongest columns, and all others in
# one bar.

ExplanationDisplay.from_estimator(model, asked, row=1, count=4, for_="late", against="on time")
plt.show()
