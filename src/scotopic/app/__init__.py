"""The web page of ``scotopic app``: match a pair in the browser, look at the result, take it away.

:mod:`~scotopic.app.session` holds what one visitor has, :mod:`~scotopic.app.inputs` takes pairs in,
:mod:`~scotopic.app.work` does what the buttons ask for, :mod:`~scotopic.app.pictures` draws, and none of them knows
Gradio. :mod:`~scotopic.app.page` lays the page out, :mod:`~scotopic.app.routes` answers for its pictures and files,
:mod:`~scotopic.app.server` runs it.
"""
