"""What commands do for runs of priors over tokens."""
