"""Everything that touches Ray and RLlib."""
