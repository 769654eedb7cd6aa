"""What all tests share: the marks."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "reference: compares with the published results; needs the shared data")
