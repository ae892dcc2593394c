"""Speed of a job from its placement: profile catalogue, co-location, communication."""
