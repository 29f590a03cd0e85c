"""The line that a training shows now and then to the person who watches."""

from datetime import timedelta

SECONDS_BETWEEN_LINES = 10.0


def progress_line(
    name: str,
    step: int,
    total_steps: int,
    *,
    tokens_per_second: float,
    perplexity: float,
    seconds_left: float,
) -> str:
    """One line: which training, how far, how fast, how well, how long still."""
    return (
        f"[{name}] step {step:,}/{total_steps:,} ({step / total_steps:.0%}), "
        f"{tokens_per_second:,.0f} tokens/s, perplexity {perplexity:.2f}, "
        f"{time_left(seconds_left)} left"
    )


def time_left(seconds: float) -> timedelta:
    """Hours, minutes and seconds, as they are printed."""
    return timedelta(seconds=round(seconds))
