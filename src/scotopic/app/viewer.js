// The viewer: a map over the noisy image, with a wipe between them, and the values of the pixel under the pointer.
const HINT = "Point at the picture to read a pixel; click, tap or use the arrow keys to hold it.";
const find = (selector) => element.querySelector(selector);
let kind = "disparity", held = null, wanted = null, asking = false;

function place() {
  const at = find(".sc-wipe input").value;
  find(".sc-over").style.clipPath = `inset(-1px -1px -1px ${at}%)`;
  find(".sc-line").style.left = `${at}%`;
}

function legend(value) {
  const box = find(".sc-legend");
  if (kind === "disparity") {
    box.innerHTML = `<span>${value.ends[0]}</span><i class="sc-bar sc-turbo" style="background-image:url(${value.base}/maps/bar.png)"></i><span>${value.ends[1]}</span>`;
  } else if (kind === "confidence") {
    box.innerHTML = `<span>0</span><i class="sc-bar sc-viridis"></i><span>1</span><span class="sc-aside">gray: hidden by the mask</span>`;
  } else if (kind === "reason") {
    box.innerHTML = value.reasons.map(([name, color]) => `<span class="sc-key"><i style="background:${color}"></i>${name}</span>`).join("");
  } else if (kind === "frames") {
    box.innerHTML = `<span>0</span><i class="sc-bar sc-viridis"></i><span>${value.fused} frames behind a pixel</span>`;
  } else if (kind === "fused") {
    box.innerHTML = `<span class="sc-aside">the light of ${value.fused} frame(s), in the place of the first</span>`;
  } else {
    box.innerHTML = `<span class="sc-aside">boundaries and colors that were found in the noise</span>`;
  }
}

function show() {
  const value = props.value;
  if (!value || !value.base) return;
  const version = `${value.stamp}-${value.threshold}`;
  const frame = find(".sc-frame");
  if (frame.dataset.stamp !== String(value.stamp)) {
    frame.dataset.stamp = value.stamp;
    frame.style.aspectRatio = `${value.width} / ${value.height}`;
    // All of it in sight, with what stands above and below, unless that would be too small to see anything.
    const most = `calc(max(300px, 100vh - 350px) * ${value.width / value.height})`;
    frame.style.maxWidth = find(".sc-wipe").style.maxWidth = most;
    find(".sc-under").src = `${value.base}/maps/image.png?v=${value.stamp}`;
    if (!(value.fused > 1)) hold(null); // a clip that gets clearer is still the same
  }
  for (const button of element.querySelectorAll("[data-kind=fused], [data-kind=frames]")) button.hidden = !value.fused;
  if (!value.fused && ["fused", "frames"].includes(kind)) kind = "disparity";
  find(".sc-over").src = `${value.base}/maps/${kind}.png?v=${version}`;
  find(".sc-name").textContent = { reason: "reasons", fused: "fused image" }[kind] || kind;
  for (const button of element.querySelectorAll(".sc-kinds button")) {
    button.setAttribute("aria-pressed", button.dataset.kind === kind);
  }
  legend(value);
  place();
  if (held) ask(held);
}

function hold(pixel) {
  held = pixel;
  const mark = find(".sc-mark"), value = props.value;
  mark.style.display = pixel ? "block" : "none";
  if (pixel) {
    mark.style.left = `${(100 * (pixel[0] + 0.5)) / value.width}%`;
    mark.style.top = `${(100 * (pixel[1] + 0.5)) / value.height}%`;
  } else {
    find(".sc-reading").textContent = HINT;
  }
}

async function ask(pixel) {
  wanted = pixel;
  if (asking) return;
  asking = true;
  while (wanted) {
    const [x, y] = wanted;
    wanted = null;
    try {
      const answer = await fetch(`${props.value.base}/pixel?x=${x}&y=${y}`);
      const words = answer.ok ? (await answer.json()).text : await answer.text();
      find(".sc-reading").textContent = (held ? "Held: " : "") + words;
    } catch (error) {
      find(".sc-reading").textContent = "The server does not answer.";
    }
  }
  asking = false;
}

function pixelAt(event) {
  const box = find(".sc-frame").getBoundingClientRect(), value = props.value;
  const x = Math.floor(((event.clientX - box.left) / box.width) * value.width);
  const y = Math.floor(((event.clientY - box.top) / box.height) * value.height);
  return x >= 0 && y >= 0 && x < value.width && y < value.height ? [x, y] : null;
}

element.addEventListener("input", (event) => {
  if (event.target.type === "range") place();
});
element.addEventListener("click", (event) => {
  const button = event.target.closest(".sc-kinds button");
  if (button) {
    kind = button.dataset.kind;
    show();
  } else if (event.target.closest(".sc-frame") && props.value) {
    const pixel = pixelAt(event);
    const same = held && pixel && held[0] === pixel[0] && held[1] === pixel[1];
    hold(same ? null : pixel);
    if (held) ask(held);
  }
});
element.addEventListener("keydown", (event) => {
  if (!event.target.closest(".sc-frame") || !props.value) return;
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.key === "Escape") hold(null);
  else if (step) {
    const { width, height } = props.value, far = event.shiftKey ? 10 : 1;
    const [x, y] = held || [width >> 1, height >> 1];
    hold([Math.min(Math.max(x + far * step[0], 0), width - 1), Math.min(Math.max(y + far * step[1], 0), height - 1)]);
    ask(held);
  } else return;
  event.preventDefault();
});
element.addEventListener("pointermove", (event) => {
  if (held || !props.value || !event.target.closest(".sc-frame")) return;
  const pixel = pixelAt(event);
  if (pixel) ask(pixel);
});
find(".sc-reading").textContent = HINT;
watch("value", show);
show();
