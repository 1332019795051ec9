"""How good is what a model says or draws? Numbers that need no training of the model itself."""
