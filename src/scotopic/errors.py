"""The exceptions. Every failure that scotopic expects is a :class:`ScotopicError`.

Its message says in a sentence or two what is wrong with which input, and what to do about it. The command line prints
that message and exits with code 2.
"""


class ScotopicError(Exception):
    """Base class of all errors that scotopic raises on purpose."""


class InputError(ScotopicError):
    """An image, a file or an array cannot be used as it is."""


class PairWarning(UserWarning):
    """A pair looks wrong (the same image twice, swapped, not rectified), though it can be matched."""


class SettingsError(ScotopicError):
    """A preset, a setting or a disparity range is unknown or makes no sense."""


class DeviceError(ScotopicError):
    """The requested device cannot do the work."""


class DarkImageWarning(UserWarning):
    """A pair uses little of the range of its format, and was normalized by levels that its data suggest."""


class OutputError(ScotopicError):
    """Results cannot be written to the place that was asked for."""
