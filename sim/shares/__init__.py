"""Who gets how many GPUs: auctions, programs and searches of the round-based schedulers."""
