"""Names that the runner, the algorithm and the trainer share."""

ENV_NAME = "gpuyard"
SHARED = "shared"  # the one policy of all agents
WHOLE_RETURN = "whole_episode_return"
RETURN_WINDOW = 16  # episodes
