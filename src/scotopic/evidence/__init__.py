"""What speaks for each disparity of each pixel: the stage that ``preset="best"`` puts in the place of the patch costs.

:mod:`~scotopic.evidence.noise` says how noisy the pair is, :mod:`~scotopic.evidence.groups` makes faint structure
clearer, :mod:`~scotopic.evidence.clarity` says how clear the images are, :mod:`~scotopic.evidence.channels` what is
compared and how much it tells, :mod:`~scotopic.evidence.volume` adds it up, :mod:`~scotopic.evidence.solve` finds the
disparities, :mod:`~scotopic.evidence.planes` lays planes through them, :mod:`~scotopic.evidence.confidence` says how
sure they are.
"""
