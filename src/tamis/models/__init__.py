"""Statistical models, each with `observe` (data → sums) and `infer` (sums → posterior), without scikit-learn.

They are generative and linear models, principal components, and latent factors of ratings.
"""

from tamis.extras import import_package

import_package("scipy", __name__)
