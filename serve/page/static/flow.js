// The run of a flow as a graph: a box for each node, numbered arrows in the order of the steps, and the same as a
// table.

import { h, svg, number } from "./dom.js";

const boxHeight = 34;
const gap = 30;
let drawn = 0; // each drawing has an arrow head of its own: one in a closed part of the page cannot be referred to

// stepsOf are the steps of a trace; of one without, those of the plain way.
export function stepsOf(trace) {
  if (trace.steps?.length) return trace.steps;
  const ms = trace.ms ?? {};
  const steps = [];
  const g = trace.gate;
  if (g) {
    steps.push({ node: "gate", verdict: g.retrieve ? "open" : "closed", ms: (ms.embed ?? 0) + (ms.gate ?? 0) });
  }
  if (trace.retrieved?.length) {
    steps.push({ node: "retrieve", verdict: `${trace.retrieved.length} passages`, ms: ms.retrieve });
  }
  steps.push({ node: "answer", verdict: trace.mode, tokens: trace.answer_tokens, ms: ms.generate });
  return steps;
}

const timeOf = (s) => s.ms ?? s.milliseconds;

export function flow(trace) {
  const steps = stepsOf(trace);
  return h(
    "div",
    { class: "flow" },
    graph(steps),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Steps" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["", "step", "verdict", "tokens", "ms"].map((t) =>
              h("th", { scope: "col", class: t === "tokens" || t === "ms" ? "right" : "" }, t),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          steps.map((s, i) =>
            h(
              "tr",
              {},
              h("td", { class: "faint" }, `${i + 1}`),
              h("th", { scope: "row" }, s.node, s.input && h("div", { class: "faint small" }, s.input)),
              h("td", {}, s.verdict ?? ""),
              h("td", { class: "right" }, s.tokens ? `${s.tokens}` : ""),
              h("td", { class: "right" }, Number.isFinite(timeOf(s)) ? number(timeOf(s), 1) : ""),
            ),
          ),
        ),
      ),
    ),
  );
}

const clip = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);

function graph(steps) {
  const tip = `tip-${(drawn += 1)}`;
  const order = [];
  for (const s of steps) if (!order.includes(s.node)) order.push(s.node);
  const times = (node) => steps.filter((s) => s.node === node).length;
  const boxWidth = 164;
  const left = 84;
  const width = 370;
  const height = order.length * (boxHeight + gap) - gap + 4;
  const y = (node) => 2 + order.indexOf(node) * (boxHeight + gap);
  const edges = new Map(); // from one node to another: the numbers of the steps, and what was decided there
  for (let i = 0; i + 1 < steps.length; i++) {
    const [from, to] = [order.indexOf(steps[i].node), order.indexOf(steps[i + 1].node)];
    const edge = edges.get(`${from} ${to}`) ?? { from, to, numbers: [], verdict: steps[i].verdict ?? "" };
    edge.numbers.push(i + 1);
    if (edge.verdict !== (steps[i].verdict ?? "")) edge.verdict = "";
    edges.set(`${from} ${to}`, edge);
  }
  const arrows = [];
  let bend = 0;
  for (const { from, to, numbers, verdict } of edges.values()) {
    const text = `${numbers.join(", ")}${verdict ? `: ${verdict}` : ""}`;
    const [a, b] = [y(order[from]), y(order[to])];
    if (to === from + 1) {
      const x = left + boxWidth / 2;
      arrows.push(
        svg("path", { class: "edge", d: `M${x} ${a + boxHeight}V${b - 2}`, "marker-end": `url(#${tip})` }),
        svg("text", { x: x + 7, y: a + boxHeight + gap / 2 + 3 }, clip(text, 19)),
      );
      continue;
    }
    bend += 1;
    const right = to <= from; // back on the right, ahead on the left
    const out = Math.min(20 + 10 * bend, right ? 64 : 54);
    const x = right ? left + boxWidth : left;
    const far = right ? x + out : x - out;
    const [start, end] = [a + boxHeight * 0.7, b + boxHeight * (to === from ? 0.2 : 0.4)];
    arrows.push(
      svg("path", {
        class: "edge back",
        "marker-end": `url(#${tip})`,
        d: `M${x} ${start}C${far} ${start} ${far} ${end} ${right ? x + 2 : x - 2} ${end}`,
      }),
      svg(
        "text",
        {
          x: right ? x + out * 0.75 + 5 : x - out * 0.75 - 5,
          y: (start + end) / 2 + 4,
          "text-anchor": right ? "start" : "end",
        },
        clip(text, right ? 13 : 10),
      ),
    );
  }
  const told = `The run: ${steps.map((s) => `${s.node}${s.verdict ? ` (${s.verdict})` : ""}`).join(", then ")}.`;
  return svg(
    "svg",
    { class: "graph", role: "img", "aria-label": told, viewBox: `0 0 ${width} ${height}`, width, height },
    svg(
      "defs",
      {},
      svg(
        "marker",
        {
          id: tip,
          viewBox: "0 0 8 8",
          refX: 7,
          refY: 4,
          markerWidth: 7,
          markerHeight: 7,
          orient: "auto-start-reverse",
        },
        svg("path", { class: "tip", d: "M0 0L8 4L0 8Z" }),
      ),
    ),
    ...arrows,
    ...order.map((node) =>
      svg(
        "g",
        {},
        svg("rect", { x: left, y: y(node), width: boxWidth, height: boxHeight, rx: 8 }),
        svg(
          "text",
          { class: "node", x: left + boxWidth / 2, y: y(node) + boxHeight / 2 + 4, "text-anchor": "middle" },
          clip(node, 20) + (times(node) > 1 ? ` ×${times(node)}` : ""),
        ),
      ),
    ),
  );
}
