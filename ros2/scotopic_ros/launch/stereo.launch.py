"""Start the node for one stereo camera: ``ros2 launch scotopic_ros stereo.launch.py namespace:=stereo``."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

TOPICS = ("left/image_rect", "right/image_rect", "left/camera_info", "right/camera_info")


def generate_launch_description() -> LaunchDescription:
    """Return the node and its arguments: namespace, file of parameters, and a name for each input topic."""
    parameters = [FindPackageShare("scotopic_ros"), "/config/stereo.yaml"]
    arguments = [
        DeclareLaunchArgument("namespace", default_value="stereo", description="of the camera's topics"),
        DeclareLaunchArgument("parameters", default_value=parameters, description="file of parameters"),
        *(
            DeclareLaunchArgument(topic.replace("/", "_"), default_value=topic, description=f"topic of {topic}")
            for topic in TOPICS
        ),
    ]
    node = Node(
        package="scotopic_ros",
        executable="stereo_node",
        namespace=LaunchConfiguration("namespace"),
        parameters=[LaunchConfiguration("parameters")],
        remappings=[(topic, LaunchConfiguration(topic.replace("/", "_"))) for topic in TOPICS],
        output="screen",
    )
    return LaunchDescription([*arguments, node])
