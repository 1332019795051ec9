"""Tests of estimators and spaces against enumeration, for your own classes as well as ours."""

from hardmax.testing.gradients import FALSE_ALARM, Ladder, assert_bias_vanishes, assert_exact, assert_unbiased
from hardmax.testing.spaces import assert_space

__all__ = ["FALSE_ALARM", "Ladder", "assert_bias_vanishes", "assert_exact", "assert_space", "assert_unbiased"]
