"""From a configuration to runs: one and stepping through it, several on paired windows."""
