"""How results are judged. Never imported by the method itself."""

from scotopic.evaluation.metrics import Score, score, window_error

__all__ = ["Score", "score", "window_error"]
