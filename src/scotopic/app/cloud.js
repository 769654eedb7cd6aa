// Shows the points of the result, which can be turned. It draws with a depth buffer on a canvas, so no GPU is needed.
const canvas = element.querySelector("canvas"), pen = canvas.getContext("2d");
let places = new Float32Array(0), colors = new Uint8Array(0), center = [0, 0, 0], size = 1;
let yaw, pitch, zoom, spacing = 0, loaded = null, shown = null, asking = false, queued = false;

function reset() {
  yaw = -0.35;
  pitch = -0.2;
  zoom = 1;
  redraw();
}

function median(axis) {
  const values = [];
  for (let i = axis; i < places.length; i += 3 * 7) values.push(places[i]);
  values.sort((a, b) => a - b);
  return values.length ? values[values.length >> 1] : 0;
}

// What is to be shown, unless nobody looks.
function wanted() {
  const value = props.value;
  return value && value.base && canvas.clientWidth ? `${value.base}-${value.stamp}-${value.threshold}` : loaded;
}

// One request at a time, so that no earlier answer comes after a later one.
async function load() {
  if (asking) return;
  asking = true;
  for (let version; (version = wanted()) !== loaded; loaded = version) {
    try {
      await fetchPoints(props.value);
    } catch (error) {
      element.querySelector(".sc-count").textContent = "The server does not answer.";
    }
  }
  asking = false;
  redraw();
}

async function fetchPoints(value) {
  const answer = await fetch(`${value.base}/points?v=${value.stamp}-${value.threshold}`);
  const words = element.querySelector(".sc-count");
  if (!answer.ok) {
    words.textContent = await answer.text();
    return;
  }
  const data = await answer.arrayBuffer(), count = data.byteLength / 15;
  places = new Float32Array(data, 0, 3 * count);
  colors = new Uint8Array(data, 12 * count, 3 * count);
  words.textContent = `${count.toLocaleString("en")} points, ${value.geometry}.`;
  // Neighboring pixels lie Z / focal apart in space, more where points were left out: dots of that size close the gaps.
  spacing = (1.5 / value.focal) * Math.max(1, (answer.headers.get("X-Thinned") || 1)) ** 0.5;
  const result = `${value.base}-${value.stamp}`;
  if (result === shown || !count) return;
  shown = result;
  center = [median(0), median(1), median(2)];
  const reach = [];
  for (let i = 0; i < places.length; i += 3 * 7) {
    reach.push(Math.hypot(places[i] - center[0], places[i + 1] - center[1], places[i + 2] - center[2]));
  }
  reach.sort((a, b) => a - b);
  size = reach[Math.floor(0.8 * reach.length)] || 1;
  reset();
}

function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    paint();
  });
}

function paint() {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (!width || !height) return;
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const image = pen.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  pixels.fill(0xff1b1614);
  const nearest = new Float32Array(width * height).fill(Infinity);
  const cy = Math.cos(yaw), sy = Math.sin(yaw), cp = Math.cos(pitch), sp = Math.sin(pitch);
  const away = 3.2 / zoom, scale = Math.min(1.5 * width, 2.2 * height), most = 7 * ratio;
  for (let i = 0; i < places.length; i += 3) {
    const x = (places[i] - center[0]) / size, y = (places[i + 1] - center[1]) / size, z = (places[i + 2] - center[2]) / size;
    const across = cy * x - sy * z, back = sy * x + cy * z;
    const down = cp * y - sp * back, depth = sp * y + cp * back + away;
    if (depth < 0.05) continue;
    const u = Math.round(width / 2 + (scale * across) / depth), v = Math.round(height / 2 + (scale * down) / depth);
    const dot = Math.min(most, Math.ceil((scale * places[i + 2] * spacing) / (size * depth)));
    const color = 0xff000000 | (colors[i + 2] << 16) | (colors[i + 1] << 8) | colors[i];
    for (let b = v; b < v + dot; b++) {
      if (b < 0 || b >= height) continue;
      for (let a = u; a < u + dot; a++) {
        if (a < 0 || a >= width || nearest[b * width + a] <= depth) continue;
        nearest[b * width + a] = depth;
        pixels[b * width + a] = color;
      }
    }
  }
  pen.putImageData(image, 0, 0);
}

function turn(dx, dy) {
  yaw += dx;
  pitch = Math.min(1.5, Math.max(-1.5, pitch + dy));
  redraw();
}

canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
canvas.addEventListener("pointermove", (event) => {
  if (event.buttons || event.pointerType === "touch") turn(-event.movementX * 0.008, -event.movementY * 0.008);
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom = Math.min(12, Math.max(0.2, zoom * Math.exp(-event.deltaY * 0.0012)));
  redraw();
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const turns = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
  if (turns) turn(...turns);
  else if (event.key === "+" || event.key === "-") {
    zoom *= event.key === "+" ? 1.15 : 1 / 1.15;
    redraw();
  } else return;
  event.preventDefault();
});
element.querySelector("button").addEventListener("click", reset);
new ResizeObserver(load).observe(canvas);
watch("value", load);
reset();
load();
