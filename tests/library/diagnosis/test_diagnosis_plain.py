"""Errors of a diagnosis for arguments of the wrong type, which jaxtyping's hook would reject first."""

import pytest
import torch

import hardmax as hm

pytestmark = pytest.mark.plain  # without shape checks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exact": "guess"}, "'monte-carlo'"),
        ({"estimators": ["direct"]}, "must be estimators such as"),
        ({"estimators": {"mine": "direct"}}, "must be estimators such as"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, message):
    given = {"estimators": [hm.Direct()], **arguments}
    estimators = given.pop("estimators")
    with pytest.raises(hm.ArgumentError, match=message):
        hm.diagnose(lambda z: z.prod(-1), torch.zeros(3), hm.Binary(3), estimators, **given)
