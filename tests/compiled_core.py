"""The mark of tests that need the compiled core."""

import pytest

from tamis.compiled import core

needs_core = pytest.mark.skipif(core is None, reason="the compiled core was not built, or is switched off")
