"""Training by gradients, and the two systems that bring their own."""
