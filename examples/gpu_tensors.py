"""In a PyTorch program: tensors on the GPU in, tensors on the GPU out, without a copy to the host."""

import sys

import panels

import scotopic
from scotopic.backends.device import resolve_device
from scotopic.errors import DeviceError

out = panels.folder(__doc__)
try:
    resolve_device("cuda")
except DeviceError as error:
    print(f"skipped, because there is no GPU: {error}")
    sys.exit(0)

import torch  # noqa: E402 - only if there is a GPU to use it

scene = scotopic.render_scene(320, 208)
noisy = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2)
left, right = (torch.from_numpy(image).cuda() for image in noisy)

result = scotopic.match(left, right, preset="fast", max_disparity=48)
truth = torch.from_numpy(scene.disparity_left).cuda()
error = (result.disparity - truth).abs()[result.mask]
print(f"{result.disparity.device}: {result.coverage:.1%} answered, {error.le(3).float().mean().item():.0%} within 3 px")

low, high = scene.disparity_left.min() - 2, scene.disparity_left.max() + 1
shown = [("Disparity, from the GPU", panels.colored(result.to_numpy().disparity, low, high))]
panels.save(out / "gpu_tensors.png", [shown])
