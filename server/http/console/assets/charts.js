// Small charts as inline SVG. What they show stands beside them as text as well.

import { h, svg } from "./dom.js";

const W = 300, H = 72;

// lineChart draws values over time; null is a gap. points: [{at, value}], from
// left to right over span ms up to now.
export function lineChart({ label, under, points, now, span, color = 0, format }) {
  const known = points.filter((p) => p.value !== null && p.at >= now - span);
  const top = niceTop(Math.max(0, ...known.map((p) => p.value)));
  const x = (at) => ((at - (now - span)) / span) * W;
  const y = (value) => H - 2 - (value / top) * (H - 6);
  const runs = [];
  let run = [];
  for (const p of points) {
    if (p.at < now - span) continue;
    if (p.value === null) {
      if (run.length) runs.push(run);
      run = [];
    } else run.push(p);
  }
  if (run.length) runs.push(run);
  const path = (r) => r.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(p.value).toFixed(1)}`).join("");
  const last = known.at(-1)?.value ?? null;
  return h("figure", { class: `chart color-${color}` },
    h("figcaption", null, h("span", null, label), h("b", null, last === null ? "–" : format(last))),
    h("div", { class: "chart-body" },
      h("span", { class: "chart-top", "aria-hidden": "true" }, format(top)),
      svg("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${last === null ? "–" : format(last)}, ≤ ${format(Math.max(0, ...known.map((p) => p.value)))}` },
        [0.5, 1].map((part) => svg("line", { class: "grid", x1: 0, x2: W, y1: y(top * part), y2: y(top * part) })),
        svg("line", { class: "axis", x1: 0, x2: W, y1: H - 2, y2: H - 2 }),
        runs.map((r) => [
          svg("path", { class: "area", d: `${path(r)}L${x(r.at(-1).at).toFixed(1)} ${H - 2}L${x(r[0].at).toFixed(1)} ${H - 2}Z` }),
          svg("path", { class: "line", d: path(r) }),
        ])), h("small", null, under)));
}

// niceTop is the end of the axis: 1, 2 or 5 times a power of ten.
function niceTop(max) {
  if (!(max > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  for (const step of [1, 2, 5, 10]) if (max <= step * power) return Math.max(1, step * power);
  return max;
}

// barChart draws counts of buckets. bars: [{label, value}]
export function barChart({ label, bars, color = 0 }) {
  const top = Math.max(1, ...bars.map((bar) => bar.value));
  const width = W / Math.max(1, bars.length);
  return h("div", { class: `bars color-${color}` },
    svg("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      bars.map((bar, i) => {
        // A single one among thousands is still seen.
        const height = bar.value ? Math.max(2, (bar.value / top) * (H - 4)) : 0;
        return svg("rect", { class: "bar", x: i * width + width * 0.12, y: H - 1 - height, width: width * 0.76, height }, svg("title", null, `${bar.label}: ${bar.value}`));
      }), svg("line", { class: "axis", x1: 0, x2: W, y1: H - 1, y2: H - 1 })),
    h("div", { class: "bar-labels", "aria-hidden": "true" }, h("span", null, bars[0]?.label ?? ""), h("span", null, bars.at(-1)?.label ?? "")));
}
