"""Assertions that compare an estimator or a space with enumeration; they also work for your own classes."""

from hardmax.testing.gradients import FALSE_ALARM, Ladder, assert_bias_vanishes, assert_exact, assert_unbiased
from hardmax.testing.spaces import assert_space

__all__ = ["FALSE_ALARM", "Ladder", "assert_bias_vanishes", "assert_exact", "assert_space", "assert_unbiased"]
