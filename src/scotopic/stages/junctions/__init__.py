"""The field of junctions of one image (Verbin and Zickler, ICCV 2021): parameters, boundary map, color map.

``geometry`` says what one junction looks like, ``reference`` has the steps of the fit in plain NumPy, ``fit`` the
schedule on any backend.
"""
