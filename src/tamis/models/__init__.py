"""The science of models, each a pair (observe, infer): generative, linear, components and factors."""

from tamis.extras import import_package

import_package("scipy", __name__)
