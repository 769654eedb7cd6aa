"""The exception family: every expected failure is a :class:`ScotopicError`.

A message names the input, what was found, what was expected, and what to do; the command prints it as one line and
exits with code 2.
"""


class ScotopicError(Exception):
    """Base of every error that scotopic raises on purpose."""


class InputError(ScotopicError):
    """An image, file or array cannot be used as it is."""


class SettingsError(ScotopicError):
    """A preset, setting or disparity range is unknown or makes no sense."""


class DeviceError(ScotopicError):
    """The requested device cannot run this."""


class OutputError(ScotopicError):
    """Results cannot be written where they were asked for."""
