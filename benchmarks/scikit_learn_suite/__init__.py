"""scikit-learn's own tests, run on our classes: `python -m benchmarks.scikit_learn_suite`."""
