"""A deep set over the tenants of a GPU, with spreads that are calibrated on rows left out.

The speed is the mean of an ensemble (Lakshminarayanan et al. 2017). The spread is multiplied so
that 90 % of the fitted rows lie inside their interval, each judged by the members that left its mix
out: locally weighted conformal prediction (Lei et al. 2018, 5.2) over folds (Vovk 2015), with a
factor and members of their own for new models or GPU types (Vovk et al. 2005). The rows left out
also stop the training: coverage is measured (docs/results/interference_models.md), not guaranteed.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from interference.evaluation.judge import LEVEL, NORMAL
from interference.models.deep_set_rows import Division, Hiding, Size, Tenants, division
from interference.models.encoding import UNKNOWN, Encoded
from interference.models.linear import ScaledModel
from interference.rows import CoRows, mix_numbers
from sim.arrays import BoolArray, FloatArray

START_NAME = 0.1  # spread of the vectors of names before they learn
LOWEST_LN_SD, HIGHEST_LN_SD = -4.0, 2.0  # of a speed in units of its GPU type


class DeepSets(nn.Module):
    """Members share nothing but the pass through the machine."""

    def __init__(
        self, size: Size, *, members: int, width: int, hidden: int, generator: torch.Generator
    ) -> None:
        """Draw the weights: `width` is of a job's and a push's vector, `hidden` of inner layers."""
        super().__init__()

        def drawn(rows: int, columns: int, scale: float | None = None) -> nn.Parameter:
            scale = max(rows, 1) ** -0.5 if scale is None else scale
            return nn.Parameter(scale * torch.randn(members, rows, columns, generator=generator))

        self.job_features = drawn(size.features, width)
        self.job_profiles = drawn(size.profiles + 1, width, START_NAME)
        self.job_models = drawn(size.models + 1, width, START_NAME)
        self.types = drawn(size.types + 1, width, START_NAME)
        self.phi_aggressor = drawn(width, hidden)
        self.phi_beside = drawn(2 * width + 1, hidden)
        self.phi_bias = drawn(1, hidden, 0.1)
        self.phi_out = drawn(hidden, width)
        self.rho_in = drawn(3 * width + 1, hidden)
        self.rho_bias = drawn(1, hidden, 0.1)
        self.rho_out = drawn(hidden, 1, 0.1 * hidden**-0.5)
        self.line = drawn(3 * width + 1, 1, 0.1 * width**-0.5)
        self.spread = drawn(3 * width + 1, 1, 0.01)
        self.spread_bias = drawn(1, 1, 0.01)

    def forward(self, rows: Tenants) -> tuple[Tensor, Tensor]:
        """(K, B) mean and ln of the spread of (K, B, ...) rows."""
        victim = self._jobs(rows.victim, rows.victim_profile, rows.victim_model)
        beside = torch.cat([victim, _vectors(self.types, rows.gpu_type), rows.share], dim=-1)
        inputs = torch.cat([beside, self._push(rows, beside)], dim=-1)
        inner = nn.functional.silu(inputs @ self.rho_in + self.rho_bias)
        mean = inner @ self.rho_out + inputs @ self.line
        ln_sd = inputs.detach() @ self.spread + self.spread_bias
        return mean[..., 0], ln_sd[..., 0].clamp(LOWEST_LN_SD, HIGHEST_LN_SD)

    def _push(self, rows: Tenants, beside: Tensor) -> Tensor:
        """(K, B, width) sum over the aggressors that are there."""
        members, batch, most = rows.present.shape
        flat = members, batch * most
        others = self._jobs(
            rows.aggressors.reshape(*flat, rows.aggressors.shape[-1]),
            rows.aggressor_profile.reshape(flat),
            rows.aggressor_model.reshape(flat),
        )
        own = (beside @ self.phi_beside + self.phi_bias)[:, :, None]
        pressed = (others @ self.phi_aggressor).reshape(members, batch, most, own.shape[-1])
        inner = nn.functional.silu(pressed + own)
        # phi's last layer is linear, so that it may come after the sum, over fewer rows
        return (inner * rows.present[..., None]).sum(dim=2) @ self.phi_out

    def _jobs(self, features: Tensor, profile: Tensor, model: Tensor) -> Tensor:
        named = _vectors(self.job_profiles, profile) + _vectors(self.job_models, model)
        return features @ self.job_features + named


def _vectors(table: Tensor, index: Tensor) -> Tensor:
    """(K, B, width) of a (K, kinds, width) table and (K, B) indices."""
    return table[torch.arange(len(table))[:, None], index]


DEGREES = 4.0  # of Student's t: rows far off pull less than under a normal


# Of the sizes tried on Gavel's and Lucid's held-out pairs.
WIDTH, HIDDEN = 16, 48
BATCH, BATCH_OF_MANY = 128, 384  # rows a step that speeds are learned from, spreads from half
MANY_ROWS = 8000  # from which on batches are larger
RATE, DECAY = 0.01, 0.05  # highest step of Adam, and of weights
HIDING = Hiding(model=0.1, profile=0.2, gpu_type=0.05, blur=0.3)
LOOKS, LOOK_ROWS = 25, 1000  # at the rows left out, evenly spread over the steps; most rows a look


def trained(
    rows: Tenants, target: Tensor, division: Division, size: Size, steps: int, seed: int
) -> DeepSets:
    """Members at their best look, on N rows and their scaled speeds (N,)."""
    draws = torch.Generator().manual_seed(seed)
    count = BATCH if len(rows) < MANY_ROWS else BATCH_OF_MANY
    members = len(division.outside)
    net = DeepSets(size, members=members, width=WIDTH, hidden=HIDDEN, generator=draws)
    search = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    pace = torch.optim.lr_scheduler.OneCycleLR(search, RATE, total_steps=steps, pct_start=0.1)
    forgotten = torch.as_tensor(division.forgotten)
    inside, outside = _numbers(~division.outside), _numbers(division.outside)
    seen = _spread_out(outside, LOOK_ROWS, draws)
    look = _Look(rows.take(seen).forget(forgotten, size), target[seen])
    for step in range(1, steps + 1):
        learned = _drawn(inside, count, draws)
        index = torch.cat([learned, _drawn(outside, count // 2, draws)], dim=1)
        batch = rows.take(index).forget(forgotten, size).hide(HIDING, size, draws)
        search.zero_grad(set_to_none=True)
        mean, ln_sd = net(batch)
        _loss(mean, ln_sd, target[index], count).backward()
        search.step()
        pace.step()
        if step % max(steps // LOOKS, 1) == 0:
            look.at(net)
    net.load_state_dict(look.best)
    return net


class _Look:
    """The best state of each member so far, by its error on some of the rows it leaves out."""

    def __init__(self, rows: Tenants, target: Tensor) -> None:
        """Take (K, L) rows and their (K, L) scaled speeds."""
        self._rows, self._target = rows, target
        self._error = torch.full((len(target),), torch.inf)
        self.best: dict[str, Tensor] = {}

    @torch.no_grad()
    def at(self, net: DeepSets) -> None:
        """Keep members that are better than they ever were."""
        mean, _ = net(self._rows)
        error = (mean - self._target).abs().mean(dim=1)
        better = (error < self._error)[:, None, None]
        self._error = torch.minimum(error, self._error)
        for name, now in net.state_dict().items():
            self.best[name] = torch.where(better, now, self.best.get(name, now))


def _loss(mean: Tensor, ln_sd: Tensor, target: Tensor, learned: int) -> Tensor:
    """Of speeds in the first `learned` columns and of spreads in the others, over all members."""
    of_speed = _surprise(mean[:, :learned], ln_sd[:, :learned].detach(), target[:, :learned])
    of_spread = _surprise(mean[:, learned:].detach(), ln_sd[:, learned:], target[:, learned:])
    return of_speed.mean(dim=1).sum() + of_spread.mean(dim=1).sum()


def _surprise(mean: Tensor, ln_sd: Tensor, target: Tensor) -> Tensor:
    """Negative ln of Student's density, less a constant."""
    square = ((target - mean) * torch.exp(-ln_sd)).square()
    return ln_sd + 0.5 * (DEGREES + 1.0) * torch.log1p(square / DEGREES)


def _numbers(marks: np.ndarray) -> list[Tensor]:
    return [torch.as_tensor(np.flatnonzero(each)) for each in marks]


def _drawn(numbers: Sequence[Tensor], count: int, draws: torch.Generator) -> Tensor:
    """(K, count) of each member's numbers, with replacement."""
    return torch.stack([n[torch.randint(len(n), (count,), generator=draws)] for n in numbers])


def _spread_out(numbers: Sequence[Tensor], most: int, draws: torch.Generator) -> Tensor:
    """(K, L) of each member's numbers, L at most `most`; a short list starts again at its end."""
    count = min(max(len(each) for each in numbers), most)
    rows = []
    for each in numbers:
        order = each[torch.randperm(len(each), generator=draws)]
        rows.append(order.repeat(-(-count // len(order)))[:count])
    return torch.stack(rows)


def pooled(
    mean: FloatArray, sd: FloatArray, who: BoolArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """(N,) mean and spread of the mixture of (K, N) members, of each row those of `who`."""
    weight = np.ones(mean.shape) if who is None else who.astype(np.float64)
    weight = weight / weight.sum(axis=0)
    middle = (weight * mean).sum(axis=0)
    variance = (weight * (np.square(sd) + np.square(mean - middle))).sum(axis=0)
    return middle, np.sqrt(variance)


def conformal_factor(
    target: FloatArray, mean: FloatArray, sd: FloatArray, outside: BoolArray
) -> float:
    """What makes intervals cover LEVEL of the rows, each told by the members that left it out."""
    judged = outside.any(axis=0)
    middle, spread = pooled(mean[:, judged], sd[:, judged], outside[:, judged])
    wrong = np.sort(np.abs(target[judged] - middle) / spread)
    rank = min(math.ceil((len(wrong) + 1) * LEVEL), len(wrong))
    return float(wrong[rank - 1]) / NORMAL


BLOCK = 1000  # rows a pass


class DeepSetModel(ScaledModel):
    """Ten members by mixes, up to five by models."""

    name = "deep_set"

    def __init__(self, *, seed: int, steps: int = 1000) -> None:
        """Set the seed of folds, weights and batches, and the steps of training."""
        self._seed, self._steps = seed, steps

    def _learn(self, rows: CoRows, encoded: Encoded, target: FloatArray) -> None:
        """Train the members, then set the factors."""
        size = self._size = Size.of(self._encoder)
        rng = np.random.default_rng(self._seed)
        parts = division(mix_numbers(rows), encoded, size.models, rng)
        tenants = Tenants.of(encoded, size)
        single = torch.as_tensor(target, dtype=torch.float32)
        with _one_thread():
            self._net = trained(tenants, single, parts, size, self._steps, self._seed)
            mean, sd = self._asked(tenants, torch.as_tensor(parts.forgotten))
        self._of_known = ~parts.for_new
        self._of_new = parts.for_new if parts.for_new.any() else self._of_known
        self._factor_known, self._factor_new = (
            conformal_factor(target, mean[those], sd[those], parts.outside[those])
            for those in (self._of_known, self._of_new)
        )

    def _ask(self, encoded: Encoded) -> tuple[FloatArray, FloatArray]:
        """Mean of the members; the spread is theirs and that between them, calibrated."""
        none = torch.zeros(len(self._of_known), self._size.models + 1, dtype=torch.bool)
        with _one_thread():
            mean, sd = self._asked(Tenants.of(encoded, self._size), none)
        known, sd_known = pooled(mean[self._of_known], sd[self._of_known])
        _, sd_new = pooled(mean[self._of_new], sd[self._of_new])
        new = ~np.asarray((encoded.known() > 0.0) & (encoded.gpu_type != UNKNOWN))
        speed = np.where(new, mean.mean(axis=0), known)
        return speed, np.where(new, self._factor_new * sd_new, self._factor_known * sd_known)

    def _asked(self, rows: Tenants, forgotten: torch.Tensor) -> tuple[FloatArray, FloatArray]:
        """(K, N) mean and spread that each member tells."""
        means, spreads = [], []
        with torch.no_grad():
            for block in torch.arange(len(rows)).split(BLOCK):
                each = rows.take(block.expand(len(forgotten), -1))
                mean, ln_sd = self._net(each.forget(forgotten, self._size))
                means.append(mean.double())
                spreads.append(ln_sd.double().exp())
        return torch.cat(means, dim=1).numpy(), torch.cat(spreads, dim=1).numpy()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small nets: more threads wait for each other; sums also depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
