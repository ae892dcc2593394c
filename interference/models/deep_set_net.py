"""A deep set (Zaheer et al. 2017) over the tenants of a GPU; K independent members in one module.

    job    = features W + profile + model                  what is known of it alone
    push   = sum over aggressors of phi(aggressor, victim, GPU type, share)
    mean   = rho(victim, push, GPU type, share)
    spread = exp(line through victim, push, GPU type, share)

A sum knows no order, and an absent aggressor adds nothing. What was not fitted shares one vector,
which is learned on rows where names were hidden. The spread is a mere line, and its gradient stops
before what it reads: with more freedom it learns single rows, and it must not bend the mean.
"""

import torch
from torch import Tensor, nn

from interference.models.deep_set_rows import Size, Tenants

START_NAME = 0.1  # spread of the vectors of names before they learn
LOWEST_LN_SD, HIGHEST_LN_SD = -4.0, 2.0  # of a speed in units of its GPU type


class DeepSets(nn.Module):
    """Members share nothing but the pass through the machine."""

    def __init__(
        self, size: Size, *, members: int, width: int, hidden: int, generator: torch.Generator
    ) -> None:
        """Draw the weights.

        Args:
            size: of the rows.
            members: K.
            width: of a job's and a push's vector.
            hidden: width of the inner layers of phi and rho.
            generator: of the weights.
        """
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
        told = torch.cat([beside, self._push(rows, beside)], dim=-1)
        inner = nn.functional.silu(told @ self.rho_in + self.rho_bias)
        mean = inner @ self.rho_out + told @ self.line
        ln_sd = told.detach() @ self.spread + self.spread_bias
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
