"""Settings that every test shares."""

from hypothesis import HealthCheck, settings

# Derandomised: a run tells the same story twice. No deadline: the first kernel call compiles.
settings.register_profile(
    "gpuyard",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("gpuyard")
