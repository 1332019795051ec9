"""What is told and shown of hash encoders: what their codes find, and how far codes are apart."""
