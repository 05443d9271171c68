// Calibration: what the gate rests on, and what other policies and thresholds would do. The numbers are counted from
// the scores that the server has sent, so a movement of the slider asks for nothing.

import { h, put, say, failure, confirm, number, percent, count } from "./dom.js";
import * as api from "./api.js";
import { chart } from "./chart.js";
import { scored } from "./ask.js";
import { progress } from "./job.js";

// opens counts the ascending scores for which a gate of this cut-off opens: those strictly closer.
export function opens(effect, scores, cutoff) {
  let [from, to] = [0, scores.length];
  while (from < to) {
    // the first that is above the cut-off; for distances the first that is not below it
    const middle = (from + to) >> 1;
    if (effect.distance ? scores[middle] >= cutoff : scores[middle] > cutoff) to = middle;
    else from = middle + 1;
  }
  return effect.distance ? from : scores.length - from;
}

const cutoffOf = (effect, p, threshold) => (effect.distance ? p + threshold : p - threshold);

// outcome is what a policy and a threshold do with the questions that the calibration keeps.
export function outcome(effect, policy, threshold) {
  const p = effect.policies.find((v) => v.policy === policy);
  const cutoff = cutoffOf(effect, p.value, threshold);
  const right = opens(effect, effect.in_scope, cutoffOf(effect, p.held, threshold));
  const wrong = opens(effect, effect.others, cutoff);
  const [inScope, others] = [effect.in_scope.length, effect.others.length];
  const [a, b] = effect.each_of;
  const share = inScope ? right / inScope : NaN;
  const kept = others ? (others - wrong) / others : NaN;
  return {
    cutoff,
    opens: right * a,
    inScope: inScope * a,
    keptOut: (others - wrong) * b,
    others: others * b,
    share,
    kept,
    accepted: (right * a + wrong * b) / Math.max(1, inScope * a + others * b),
    balanced: (share + kept) / 2,
    about: a > 1 || b > 1,
  };
}

export default async function calibration(view) {
  put(view, h("h1", {}, "Calibration"), h("p", { class: "faint" }, "…"));
  let data;
  try {
    data = await api.get("/v1/calibration");
  } catch (e) {
    if (!["not_calibrated", "empty_store", "no_store"].includes(e.code)) throw e;
    put(
      view,
      h("h1", {}, "Calibration"),
      h(
        "p",
        {},
        "This base has no calibration yet: the gate is open for every ",
        "question. A calibration writes questions about the documents and measures how close they come.",
      ),
      start(view),
    );
    return;
  }
  const c = data.calibration;
  const evidence = c.evidence ?? {};
  const behind = data.staleness && h("p", { class: "notice" }, `${data.staleness}.`);
  put(
    view,
    h("h1", {}, "Calibration"),
    h(
      "p",
      {},
      h(
        "span",
        { class: `badge ${evidence.grade === "good" || evidence.grade === "fair" ? "open" : "closed"}` },
        evidence.grade || "unknown",
      ),
      ` This gate ${evidence.verdict ?? ""}.`,
    ),
    behind,
    (evidence.warnings ?? []).map((w) => h("p", { class: "notice" }, w)),
    await explorer(view, data),
    origin(c, data),
    start(view),
  );
}

const sentence = (name) => ({ "density:95": "density:95 (the paper's)" })[name] ?? name;

// explorer is the policy, the threshold and what comes of them.
async function explorer(view, data) {
  const c = data.calibration;
  let effect = data.effects.find((e) => e.in_force);
  let policy = c.policy;
  let threshold = c.threshold;
  const picture = chart({ effect, cutoff: c.cutoff, which: "questions", height: 190 });
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "Effect" });
  const table = h("tbody");
  const list = h("ul", { class: "plain tried" });
  const score = h(
    "select",
    {
      id: "score",
      onchange: () => {
        effect = data.effects.find((e) => e.score === score.value);
        threshold = 0;
        bounds();
        draw();
      },
    },
    data.effects.map((e) => h("option", { value: e.score, selected: e === effect }, e.score)),
  );
  const choice = h(
    "select",
    {
      id: "policy",
      onchange: () => {
        policy = choice.value;
        bounds();
        draw();
      },
    },
    effect.policies.map((p) => h("option", { value: p.policy, selected: p.policy === policy }, sentence(p.policy))),
  );
  const slider = h("input", {
    id: "threshold",
    type: "range",
    step: "any",
    oninput: () => set(Number(slider.value)),
  });
  const exact = h("input", {
    type: "number",
    step: "0.001",
    "aria-label": "Threshold as a number",
    onchange: () => {
      if (exact.value !== "") set(Number(exact.value));
    },
  });
  const apply = h("button", { type: "button", class: "primary", onclick: use }, "Apply…");
  const reset = h(
    "button",
    {
      type: "button",
      onclick: () => {
        effect = data.effects.find((e) => e.in_force);
        [policy, threshold] = [c.policy, c.threshold];
        [score.value, choice.value] = [effect.score, policy];
        bounds();
        draw();
      },
    },
    "Back to what is in force",
  );

  function set(value) {
    threshold = Math.round(value * 10000) / 10000;
    draw();
  }

  // bounds are the thresholds that leave something to decide.
  function bounds() {
    const p = effect.policies.find((v) => v.policy === policy) ?? effect.policies[0];
    policy = p.policy;
    const [a, b] = effect.distance
      ? [effect.low - p.value, effect.high - p.value]
      : [p.value - effect.high, p.value - effect.low];
    slider.min = Math.ceil(a * 1000) / 1000;
    slider.max = Math.floor(b * 1000) / 1000;
    threshold = Math.min(Math.max(threshold, Number(slider.min)), Number(slider.max));
    if (effect.in_force && policy === c.policy && Math.abs(threshold - c.threshold) < 0.002) threshold = c.threshold;
  }

  function draw() {
    const o = outcome(effect, policy, threshold);
    const now = outcome(
      data.effects.find((e) => e.in_force),
      c.policy,
      c.threshold,
    );
    slider.value = threshold;
    exact.value = threshold;
    slider.setAttribute(
      "aria-valuetext",
      `threshold ${threshold}, cut-off ${number(o.cutoff)}, opens for ` +
        `${percent(o.share)}, keeps out ${percent(o.kept)}`,
    );
    picture.set({ effect, cutoff: o.cutoff });
    put(
      tiles,
      tile(
        "Cut-off",
        number(o.cutoff, 4),
        now.cutoff === o.cutoff ? "in force" : `in force: ${number(now.cutoff, 4)}`,
        "cutoff",
      ),
      tile(
        "Opens for",
        ratio(o.share, o.about),
        `${count(o.opens)} of ${count(o.inScope)} questions that the base answers` +
          `${effect.held_out ? ", held out" : ""}${change(o.share, now.share)}`,
        "opens",
        o.opens,
      ),
      tile(
        "Keeps out",
        ratio(o.kept, o.about),
        o.others
          ? `${count(o.keptOut)} of ${count(o.others)} ${effect.others_are}` + change(o.kept, now.kept)
          : "no such questions are kept",
        "kept",
        o.keptOut,
      ),
      tile(
        "Balanced accuracy",
        ratio(o.balanced, o.about),
        `accepts ${percent(o.accepted)} of all of these` + change(o.balanced, now.balanced),
        "balanced",
      ),
    );
    const same = effect.in_force && policy === c.policy && threshold === c.threshold;
    apply.disabled = reset.disabled = same;
    put(
      table,
      effect.policies.map((p) => row(p.policy)),
    );
    put(
      list,
      tried.map((q) => decided(q, o.cutoff, now.cutoff)),
    );
  }

  function row(name) {
    const o = outcome(effect, name, threshold);
    return h(
      "tr",
      { class: name === policy ? "chosen" : "" },
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          {
            type: "button",
            class: "link",
            "aria-pressed": name === policy ? "true" : "false",
            onclick: () => {
              policy = choice.value = name;
              bounds();
              draw();
            },
          },
          sentence(name),
        ),
      ),
      ...[number(o.cutoff, 3), ratio(o.share), ratio(o.kept), ratio(o.balanced)].map((t) =>
        h("td", { class: "right" }, t),
      ),
    );
  }

  function decided(q, cutoff, before) {
    if (q.scored_by !== effect.score) {
      return h(
        "li",
        {},
        h("span", { class: "badge" }, "–"),
        ` ${q.question} `,
        h("span", { class: "faint small" }, `scored by ${q.scored_by}`),
      );
    }
    const is = (x) => (effect.distance ? q.score < x : q.score > x);
    return h(
      "li",
      {},
      h("span", { class: `badge ${is(cutoff) ? "open" : "closed"}` }, is(cutoff) ? "open" : "closed"),
      ` ${q.question} `,
      h(
        "span",
        { class: "faint small" },
        `score ${number(q.score)}${effect.in_force && is(cutoff) !== is(before) ? ", otherwise than now" : ""}`,
      ),
    );
  }

  const tried = scored()
    .filter((q) => q.base === api.base())
    .slice(0, 8);
  const trial = h("input", { id: "trial", type: "text", placeholder: "A question", autocomplete: "off" });
  const wrong = h("div");
  const trying = h(
    "form",
    {
      class: "row",
      onsubmit: async (e) => {
        e.preventDefault();
        const question = trial.value.trim();
        if (!question) return;
        try {
          const answer = await api.post("/v1/gate", { query: question });
          const d = answer.decisions?.[0] ?? answer;
          tried.unshift({ question, score: d.score, scored_by: d.scored_by });
          trial.value = "";
          put(wrong);
          draw();
        } catch (error) {
          put(wrong, failure(error));
        }
      },
    },
    trial,
    h("button", {}, "Try"),
  );

  async function use() {
    const o = outcome(effect, policy, threshold);
    const sure = await confirm(
      "Change the gate?",
      `Policy ${policy}, threshold ${threshold}: the cut-off becomes ` +
        `${number(o.cutoff, 4)} instead of ${number(c.cutoff, 4)}. It holds for every question from then on; the ` +
        "distributions stay, so you can come back.",
      "Apply",
    );
    if (!sure) return;
    try {
      await api.post("/v1/calibration/policy", { policy, threshold, score: effect.score });
      say("The gate has changed.");
      await calibration(view);
    } catch (error) {
      put(wrong, failure(error));
    }
  }

  bounds();
  draw();
  const which = (value, text) =>
    h(
      "label",
      {},
      h("input", {
        type: "radio",
        name: "which",
        value,
        checked: value === "questions",
        onchange: () => picture.set({ which: value }),
      }),
      ` ${text}`,
    );
  return [
    h(
      "section",
      { class: "card" },
      h(
        "fieldset",
        { class: "row" },
        h("legend", { class: "hidden" }, "Drawing"),
        which("questions", "best scores of questions"),
        which("pairs", "pairs: D+ and D−"),
      ),
      picture.element,
      h(
        "div",
        { class: "controls" },
        h("label", {}, "Score ", score),
        h("label", {}, "Policy ", choice),
        h("label", { class: "wide" }, "Threshold ", slider),
        exact,
      ),
      tiles,
      wrong,
      h("div", { class: "row end" }, reset, apply),
    ),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "What it would have decided"),
      h("label", { for: "trial", class: "hidden" }, "Question"),
      trying,
      list,
    ),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "Policies at this threshold"),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Policies" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["policy", "cut-off", "opens for", "keeps out", "balanced"].map((t, i) =>
                h("th", { scope: "col", class: i ? "right" : "" }, t),
              ),
            ),
          ),
          table,
        ),
      ),
    ),
  ];
}

const ratio = (x, about) => (Number.isFinite(x) ? `${about ? "≈ " : ""}${percent(x)}` : "–");

function change(now, before) {
  const d = 100 * (now - before);
  return Number.isFinite(d) && Math.abs(d) >= 0.05 ? ` (${d > 0 ? "+" : "−"}${Math.abs(d).toFixed(1)})` : "";
}

function tile(title, value, below, name, exact) {
  return h(
    "div",
    { class: "tile", "data-name": name, "data-value": exact },
    h("div", { class: "small faint" }, title),
    h("div", { class: "big" }, value),
    h("div", { class: "small faint" }, below),
  );
}

// origin says what the calibration was made of.
function origin(c, data) {
  const q = c.queries;
  const facts = [
    ["Name", data.name],
    ["Made", new Date(c.created).toLocaleString()],
    [
      "Questions",
      `${count(q.queries)} about ${count(q.sampled_contexts)} of ${count(c.corpus.contexts)} passages, ` +
        ({ generated: `written by ${q.model}`, extracted: "extracted from their words" }[q.kind] ??
          `from ${q.source || "a file"}`),
    ],
    ["Encoder", `${c.encoder.name}, ${c.encoder.dim} dimensions`],
    ["Negatives", c.negatives],
    ["D+ and D− apart", c.separation ? `${percent(c.separation)} of pairs are in the right order` : "–"],
    ["Computed on", `${c.device}, ${c.kernel}`],
  ];
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "What it was made of"),
    h(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  );
}

// start begins a new calibration, in the background.
function start(view) {
  const sample = h("input", { id: "sample", type: "number", min: "0", step: "1", value: "0" });
  const state = h("div");
  const form = h(
    "form",
    {
      class: "row",
      onsubmit: async (e) => {
        e.preventDefault();
        const sure = await confirm(
          "Calibrate?",
          "The language model writes questions about the passages, which can take " +
            "minutes. The gate in force goes on deciding until it is done.",
          "Calibrate",
        );
        if (!sure) return;
        try {
          const { job } = await api.post("/v1/calibration", { sample: Number(sample.value) });
          const last = await progress(state, job);
          if (last.state === "done") await calibration(view);
        } catch (error) {
          put(state, failure(error));
        }
      },
    },
    h("label", {}, "Passages to ask about (0: as many as the cut-off takes) ", sample),
    h("button", {}, "Calibrate…"),
  );
  return h("section", { class: "card" }, h("h2", {}, "Calibrate again"), form, state);
}
