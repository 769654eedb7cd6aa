"""The web page of ``scotopic app``: match a pair in the browser, explore the result, download it.

:mod:`~scotopic.app.session` holds the data of one visitor, :mod:`~scotopic.app.inputs` takes pairs in,
:mod:`~scotopic.app.work` does what the buttons ask for, :mod:`~scotopic.app.pictures` draws the result. None of them
depends on Gradio. :mod:`~scotopic.app.page` lays the page out, :mod:`~scotopic.app.html` writes its HTML,
:mod:`~scotopic.app.server` runs it and serves its pictures and files.
"""
