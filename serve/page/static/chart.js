// The decision as a drawing: histograms of scores, the cut-off between them, and the score of a question.

import { h, svg, number, count } from "./dom.js";

const names = {
  positive: "D+: questions with their own passage",
  negative: "D−: questions with other passages",
  maximum: "questions that the base answers, with their best passage",
  others: "questions to keep out, with their best passage",
};

// kinds chooses what is drawn: "pairs" are D+ and D−, "questions" the best scores. Where a score has no D−, as
// pairs are counted by similarity only, the questions that are to be kept out stand in.
export function kinds(effect, which) {
  const has = (kind) => effect.histograms.some((x) => x.kind === kind);
  const wanted = which === "pairs" ? ["positive", has("negative") ? "negative" : "others"] : ["maximum", "others"];
  return wanted.filter(has);
}

// ticks are round numbers between low and high.
function ticks(low, high, room) {
  const raw = (high - low) / Math.max(2, Math.floor(room / 70));
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const list = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-9; x += step)
    list.push(Math.abs(x) < step / 2 ? 0 : x);
  return { list, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

// chart returns a figure that draws itself as wide as its place. set(changes) draws it anew.
export function chart(options) {
  const figure = h("figure", { class: "chart" });
  let now = { which: "pairs", ...options };
  let width = 0;
  const draw = () => {
    if (width) figure.replaceChildren(...drawing(now, width));
  };
  const observer = new ResizeObserver((entries) => {
    const w = Math.round(entries[0].contentRect.width);
    if (w && w !== width) {
      width = w;
      draw();
    }
  });
  observer.observe(figure);
  return {
    element: figure,
    set: (changes) => {
      now = { ...now, ...changes };
      draw();
    },
  };
}

function drawing({ effect, cutoff, score, which, height = 170 }, width) {
  const shown = effect.histograms.filter((x) => kinds(effect, which).includes(x.kind));
  let [low, high] = effect.bounds;
  const bins = shown[0]?.counts.length ?? 1;
  const [first, last] = [low, high];
  for (const x of [cutoff, score])
    if (Number.isFinite(x)) {
      low = Math.min(low, x);
      high = Math.max(high, x);
    }
  const margin = (high - low) * 0.02;
  low -= margin;
  high += margin;
  const top = 36;
  const bottom = top + height;
  const at = (x) => 1 + ((width - 2) * (x - low)) / (high - low);
  const step = (last - first) / bins;
  const shares = shown.map((s) => s.counts.map((n) => n / Math.max(1, s.n)));
  const peak = Math.max(1e-9, ...shares.flat());
  const level = (share) => bottom - (share / peak) * (height - 14);
  const areas = shown.map((s, i) => {
    let path = `M${at(first).toFixed(1)} ${bottom}`;
    shares[i].forEach((share, b) => {
      const y = level(share).toFixed(1);
      path += `L${at(first + b * step).toFixed(1)} ${y}L${at(first + (b + 1) * step).toFixed(1)} ${y}`;
    });
    return svg("path", { class: `area ${side(s.kind)}`, d: `${path}L${at(last).toFixed(1)} ${bottom}Z` });
  });
  const { list, digits } = ticks(low, high, width);
  const axis = [
    svg("line", { class: "axis", x1: 0, x2: width, y1: bottom, y2: bottom }),
    ...list.map((x) => [
      svg("line", { class: "axis", x1: at(x), x2: at(x), y1: bottom, y2: bottom + 4 }),
      svg(
        "text",
        { class: "tick", x: Math.min(width - 12, Math.max(12, at(x))), y: bottom + 17, "text-anchor": "middle" },
        x.toFixed(digits),
      ),
    ]),
  ].flat();
  const marks = [];
  const mark = (x, text, kind, y) => {
    const end = at(x) > width / 2;
    marks.push(
      svg("line", { class: kind, x1: at(x), x2: at(x), y1: y + 4, y2: bottom }),
      svg(
        "text",
        { class: `${kind} label`, x: at(x) + (end ? -5 : 5), y, "text-anchor": end ? "end" : "start" },
        text,
      ),
    );
  };
  mark(cutoff, `cut-off ${number(cutoff)}`, "cutoff", 12);
  if (Number.isFinite(score)) mark(score, `score ${number(score)}`, "score", 28);
  const open = effect.distance ? score < cutoff : score > cutoff;
  const told =
    `${shown.map((s) => `${count(s.n)} ${names[s.kind]}`).join("; ")}. Cut-off ${number(cutoff)}.` +
    (Number.isFinite(score)
      ? ` Score of the question ${number(score)}: the gate is ${open ? "open" : "closed"}.`
      : "");
  return [
    svg(
      "svg",
      { role: "img", "aria-label": told, width, height: bottom + 22, viewBox: `0 0 ${width} ${bottom + 22}` },
      ...areas,
      ...axis,
      ...marks,
    ),
    h(
      "figcaption",
      {},
      shown.map((s) =>
        h("span", { class: "key" }, h("i", { class: side(s.kind) }), `${names[s.kind]} (${count(s.n)})`),
      ),
      h(
        "span",
        { class: "faint" },
        `score: ${effect.score}${effect.weight ? `, words weigh ${effect.weight}` : ""}; the gate opens ` +
          `${effect.distance ? "below" : "above"} the cut-off`,
      ),
    ),
  ];
}

const side = (kind) => (kind === "positive" || kind === "maximum" ? "own" : "other");
