"""What is told and shown of dVAEs: what their codes look like, how they are used, what is drawn again from tokens."""
