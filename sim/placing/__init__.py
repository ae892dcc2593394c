"""Steps that placers and sharing rules share: which servers, which GPUs, in what order."""
