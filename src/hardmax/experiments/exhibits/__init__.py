"""What is looked at in a trained model: pictures that it draws, and numbers about them."""
