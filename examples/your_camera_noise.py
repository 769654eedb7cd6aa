"""Measure a camera's noise from flat fields (photon transfer curve), and compare it with the estimate from one pair."""

import cv2
import numpy as np
import panels

import scotopic
from scotopic.sensor import Sensor, photon_transfer

out = panels.folder(__doc__)

# The camera to be measured: 400 electrons to full scale, read noise 3, black level 16 of 255, 8 bits.
camera = Sensor(photons=400, read_noise=3, black=16 / 255, steps=255)


def frames(level: float, seed: int) -> np.ndarray:
    """Return two frames of an evenly lit wall with vignetting, as the camera would store them."""
    y, x = np.mgrid[-1:1:120j, -1:1:160j]
    wall = level * (1 - 0.2 * (x**2 + y**2))
    return np.stack([np.rint(255 * camera.simulate(wall, 2 * seed + k)).astype(np.uint8) for k in (0, 1)])


# Two frames at each exposure, and two with the lens cap on. With your own camera, read them from files instead.
exposures = [frames(level, seed) for seed, level in enumerate(np.linspace(0.05, 0.9, 8), start=1)]
curve = photon_transfer(exposures, dark=frames(0.0, seed=0))
print(f"measured: {curve.sensor.photons:.0f} photons (true 400), read noise {curve.sensor.read_noise:.2f} (true 3)")

# Without flat fields: the estimate from the images themselves.
scene = scotopic.render_scene(320, 208)
pair = [np.rint(255 * camera.simulate(view, k)).astype(np.uint8) for k, view in enumerate((scene.left, scene.right))]
guess = Sensor.estimate(*pair, black=16 / 255)
print(f"from one pair: {guess.photons:.0f} photons, read noise {guess.read_noise:.2f}")

# The curve: noise variance over mean signal, in recorded numbers (DN). Its slope is the gain.
mean, variance, error = 255 * curve.mean, 255**2 * curve.variance, 255**2 * curve.variance_error
slope, offset = curve.sensor.variance_line
plot = np.full((320, 560, 3), 34, np.uint8)


def at(x: float, y: float) -> tuple[int, int]:
    return round(46 + 1.95 * x), round(290 - 1.75 * y)


for tick in range(0, 251, 50):
    cv2.putText(
        plot, str(tick), (at(tick, 0)[0] - 10, 312), cv2.FONT_HERSHEY_SIMPLEX, 0.4, panels.WORDS, 1, cv2.LINE_AA
    )
    if tick <= 150:
        cv2.putText(
            plot, str(tick), (8, at(0, tick)[1] + 5), cv2.FONT_HERSHEY_SIMPLEX, 0.4, panels.WORDS, 1, cv2.LINE_AA
        )
        cv2.line(plot, at(0, tick), at(255, tick), (70, 70, 76), 1)
line = [at(x, 255**2 * (slope * (x / 255 - curve.sensor.black) + offset)) for x in (16, 250)]
cv2.line(plot, *line, (255, 150, 40), 2, cv2.LINE_AA)
for x, y, spread in zip(mean, variance, error, strict=True):
    cv2.line(plot, at(x, y - spread), at(x, y + spread), panels.WORDS, 1)
    cv2.circle(plot, at(x, y), 4, panels.WORDS, -1, cv2.LINE_AA)
words = [("x: mean, DN; dots: measured", panels.WORDS)]
words += [(f"line: gain {255 * slope:.3f} DN per electron (true {255 * camera.gain:.3f})", (255, 150, 40))]
panels.save(out / "your_camera_noise.png", [[("Noise variance, DN squared", plot)]], words)
