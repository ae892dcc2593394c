"""Learning: by playing whole windows, by gradients, and the systems that bring their own."""
