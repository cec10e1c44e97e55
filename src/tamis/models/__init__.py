"""The science of models, each a pair (observe, infer): generative, linear, components and factors."""
