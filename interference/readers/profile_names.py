"""Names of profiles: model/batch, then what else tells one run from another."""


def profile_name(model: str, batch: int | None = None, *marks: str) -> str:
    """`model/batch@mark@mark`; a batch of None is left out, and so is an empty mark."""
    base = model if batch is None else f"{model}/{batch}"
    return "@".join([base, *(mark for mark in marks if mark)])
