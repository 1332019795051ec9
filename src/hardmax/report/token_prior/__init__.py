"""What is told and shown of priors over tokens: what they generate."""
