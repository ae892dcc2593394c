"""The page that goes with a fitted model."""

from interference.saved_model import SavedModel


def model_card(
    saved: SavedModel,
    data_set: str,
    table: list[dict[str, str | float]],
    rows: int,
    folds: int,
) -> str:
    """Markdown: what it was fitted on, how well it does, what not to use it for."""
    columns = list(table[0])
    physics = "measured" if saved.source == "measured" else "shipped"
    lines = [
        "# Co-location model",
        "",
        f"- physics: {physics} (data set: {data_set}, {rows} directed rows)",
        f"- `learned` stands for: {saved.learned} (smallest mean error on held-out pairs)",
        f"- GPU types: {', '.join(saved.gpu_types)}; profiles: {len(saved.profiles)}",
        f"- pairs marked as not fitting into memory: {int(saved.infeasible.sum())} of "
        f"{saved.infeasible.size} ordered (type, pair) cells",
        "",
        f"Errors of normalised speed (co-located / alone), {folds} folds. `held_out_pairs`: "
        "neither direction of the pair was seen on any GPU type. `held_out_profiles`: the victim "
        "was never seen at all.",
        "",
        "| " + " | ".join(columns) + " |",
        "| " + " | ".join("---" for _ in columns) + " |",
    ]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in table]
    lines += [
        "",
        "Each pair in the file is predicted by a fold that did not see it, so the errors above "
        "are also those of the file. The best model was chosen by the same errors, which makes "
        "its own a little too good.",
        "",
        "Limits: two single-GPU training jobs on one GPU; three and more tenants and gangs that "
        "share are extrapolations of the simulator. It answers only for the profiles and GPU "
        "types above.",
        "",
    ]
    if saved.source == "generated":
        lines.insert(3, "- **fitted on generated rows: errors say nothing about real GPUs**")
    return "\n".join(lines)
