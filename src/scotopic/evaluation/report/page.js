"use strict";
(function () {
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const hidden = new Set();
  const chosen = {};
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function axis(own) {
    const drawn = { gridcolor: color("--line"), linecolor: color("--soft"), zeroline: false, automargin: true };
    return Object.assign(drawn, own, { title: Object.assign({ standoff: 8 }, own.title) });
  }

  function draw(plot) {
    const view = plot.views[chosen[plot.block] || 0];
    const traces = view.traces.filter((trace) => !hidden.has(trace.meta));
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
      font: { family: "system-ui, sans-serif", size: 12, color: color("--ink") },
      margin: { l: 50, r: 12, t: 8, b: 44 }, xaxis: axis(plot.x), yaxis: axis(plot.y),
    };
    const heights = traces.flatMap((trace) => trace.y).filter((value) => value > 0);
    // Ticks at 1, 2, 5, 10 ... would leave a short stretch of a logarithmic axis without any.
    if (plot.y.type === "log" && Math.max(...heights) < 8 * Math.min(...heights)) delete layout.yaxis.dtick;
    Plotly.react(plot.name, traces, layout, { responsive: true, displaylogo: false, displayModeBar: false });
  }

  function drawAll() { plots.forEach(draw); }

  document.querySelectorAll("select[data-block]").forEach(function (select) {
    select.selectedIndex = 0;
    select.addEventListener("change", function () {
      chosen[select.dataset.block] = select.selectedIndex;
      plots.filter((plot) => plot.block === select.dataset.block).forEach(draw);
    });
  });
  document.querySelectorAll(".key").forEach(function (key) {
    key.addEventListener("click", function () {
      const method = Number(key.dataset.method);
      if (!hidden.delete(method)) hidden.add(method);
      document.querySelectorAll('.key[data-method="' + method + '"]')
        .forEach((other) => other.setAttribute("aria-pressed", String(!hidden.has(method))));
      drawAll();
    });
  });
  dark.addEventListener("change", drawAll);

  const dialog = document.getElementById("large");
  document.querySelectorAll(".panel img").forEach(function (image) {
    image.addEventListener("click", function () {
      dialog.firstElementChild.src = image.src;
      dialog.firstElementChild.alt = image.alt;
      dialog.showModal();
    });
  });
  dialog.addEventListener("click", () => dialog.close());
  drawAll();
})();
