"""The ament_python package of the ROS 2 node."""

from setuptools import setup

NAME = "scotopic_ros"

setup(
    name=NAME,
    version="0.1.0",
    packages=[NAME],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", ["launch/stereo.launch.py"]),
        (f"share/{NAME}/config", ["config/stereo.yaml"]),
    ],
    install_requires=["setuptools", "scotopic"],
    zip_safe=True,
    maintainer="The Scotopic developers",
    maintainer_email="scotopic@users.noreply.github.com",
    description="Stereo depth from photon-starved image pairs, as a ROS 2 node",
    license="Apache-2.0",
    entry_points={"console_scripts": [f"stereo_node = {NAME}.node:main"]},
)
