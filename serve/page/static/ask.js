// Ask: a conversation with the base, streamed; each answer with its sources, the gate's decision and the way it took.

import { h, svg, put, say, failure, number, percent } from "./dom.js";
import * as api from "./api.js";
import { chart } from "./chart.js";
import { flow } from "./flow.js";
import * as talk from "./talk.js";
import { open as openPassage, placeOf, words } from "./passage.js";

const conversations = new Map(); // base → turns; talk.js keeps what is answered
const asked = []; // what the gate has scored, for the calibration's view
export const scored = () => asked;

const settings = { gate: "auto", flow: "", k: "" };

export default async function ask(view) {
  const base = api.base();
  const kept = conversations.has(base) ? [] : talk.read(base);
  if (!conversations.has(base)) conversations.set(base, []);
  const turns = conversations.get(base);
  let effect = null; // histograms for the decisions; a base without a calibration has none
  const calibration = api.get("/v1/calibration").then(
    (c) => {
      effect = c.effects.find((e) => e.in_force);
    },
    () => {},
  );
  const log = h("div", { class: "log" });
  const field = h("textarea", {
    id: "question",
    rows: "1",
    placeholder: "Ask about the documents",
    "aria-label": "Question",
    enterkeyhint: "send",
  });
  const send = h("button", { class: "primary", type: "submit" }, "Ask");
  const stop = h("button", { type: "button", class: "danger", hidden: true }, "Stop");
  const fresh = h(
    "button",
    {
      type: "button",
      class: "quiet",
      hidden: turns.length === 0,
      onclick: () => {
        running?.abort();
        turns.length = 0;
        talk.keep(base, turns);
        draw();
        field.focus();
      },
    },
    "New conversation",
  );
  const save = h(
    "button",
    {
      type: "button",
      class: "quiet",
      hidden: turns.length === 0,
      onclick: () => {
        const file = URL.createObjectURL(new Blob([talk.markdown(turns)], { type: "text/markdown" }));
        h("a", { href: file, download: "conversation.md" }).click();
        setTimeout(() => URL.revokeObjectURL(file), 1000);
      },
    },
    "Save",
  );
  let running = null;

  const grow = () => {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 220)}px`;
  };
  field.addEventListener("input", grow);
  field.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      form.requestSubmit();
    }
    if (e.key === "Escape" && running) running.abort();
  });
  stop.addEventListener("click", () => running?.abort());

  const form = h(
    "form",
    {
      class: "composer",
      onsubmit: (e) => {
        e.preventDefault();
        const question = field.value.trim();
        if (!question || running) return;
        field.value = "";
        grow();
        run(question);
      },
    },
    field,
    h("div", { class: "row" }, options(), h("span", { class: "spring" }), save, fresh, stop, send),
  );

  function draw() {
    put(
      log,
      turns.length
        ? turns.map((t) => t.element)
        : welcome((q) => {
            field.value = q;
            grow();
            field.focus();
          }),
    );
    fresh.hidden = save.hidden = turns.length === 0;
  }

  async function run(question) {
    const turn = newTurn(question);
    const messages = turns
      .filter((t) => t.answer)
      .flatMap((t) => [
        { role: "user", content: t.question },
        { role: "assistant", content: t.answer },
      ]);
    turns.push(turn);
    draw();
    turn.element.scrollIntoView({ block: "end" });
    running = new AbortController();
    send.hidden = true;
    stop.hidden = false;
    say("The answer is coming.");
    try {
      await stream(turn, [...messages, { role: "user", content: question }], running.signal);
    } catch (e) {
      if (e.name === "AbortError") turn.stopped = true;
      else turn.error = e;
    }
    running = null;
    send.hidden = false;
    stop.hidden = true;
    await calibration;
    turn.finish(effect);
    talk.keep(base, turns);
    const g = turn.sluice.trace?.gate;
    if (g) asked.unshift({ base, question, score: g.score, scored_by: g.scored_by });
    say(turn.error ? turn.error.message : turn.stopped ? "Stopped." : `The answer: ${turn.answer}`);
    turn.element.scrollIntoView({ block: "nearest" });
  }

  for (const one of kept) {
    const turn = Object.assign(newTurn(one.question), one);
    turns.push(turn);
    turn.finish(null);
  }
  if (kept.length) calibration.then(() => turns.slice(0, kept.length).forEach((t) => t.finish(effect)));

  draw();
  put(view, h("h1", { class: "hidden" }, "Ask"), log, form);
  field.focus({ preventScroll: true });
  return () => running?.abort();
}

function welcome(choose) {
  const examples = api.info().examples ?? [];
  return h(
    "div",
    { class: "welcome" },
    h("p", { class: "big" }, "Ask your documents."),
    h(
      "p",
      { class: "faint" },
      "The gate looks first whether they can help. If so, the answer cites its passages; if not, ",
      "it comes from the model's own knowledge and says so.",
    ),
    examples.length > 0 &&
      h(
        "ul",
        { class: "plain" },
        examples.map((q) => h("li", {}, h("button", { type: "button", class: "chip", onclick: () => choose(q) }, q))),
      ),
  );
}

function options() {
  const select = (name, label, list) =>
    h(
      "label",
      {},
      label,
      " ",
      h(
        "select",
        {
          onchange: (e) => {
            settings[name] = e.target.value;
          },
        },
        list.map(([value, text]) => h("option", { value, selected: settings[name] === value }, text)),
      ),
    );
  const flows = api.info().flows ?? [];
  return h(
    "details",
    { class: "options" },
    h("summary", {}, "Options"),
    h(
      "div",
      { class: "menu" },
      select("gate", "Gate", [
        ["auto", "decides"],
        ["open", "always open"],
        ["closed", "always closed"],
      ]),
      flows.length > 0 && select("flow", "Flow", [["", "ask"], ...flows.filter((f) => f !== "ask").map((f) => [f, f])]),
      select("k", "Passages", [
        ["", "4"],
        ["2", "2"],
        ["8", "8"],
      ]),
    ),
  );
}

// stream asks, and adds what comes to the turn.
async function stream(turn, messages, signal) {
  const options = { sentences: true };
  if (settings.gate !== "auto") options.gate = settings.gate;
  if (settings.flow) {
    options.flow = settings.flow;
    options.steps = true; // it may take a while until the first word
  }
  if (settings.k) options.k = Number(settings.k);
  const stores = api.info().stores ?? [];
  const model = api.base() && stores[0]?.name !== api.base() ? `sluice/${api.base()}` : "sluice";
  const response = await api.send("POST", "v1/chat/completions", {
    signal,
    json: { model, stream: true, stream_options: { include_usage: true }, messages, sluice: options },
  });
  for await (const { data } of api.events(response)) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new api.RequestError(0, chunk.error);
    if (chunk.sluice?.step) turn.passed(chunk.sluice.step);
    else if (chunk.sluice) Object.assign(turn.sluice, chunk.sluice);
    turn.think(chunk.choices?.[0]?.delta?.reasoning_content ?? "");
    turn.add(chunk.choices?.[0]?.delta?.content ?? "");
    turn.reason = chunk.choices?.[0]?.finish_reason ?? turn.reason;
  }
}

const dots = () => h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i"));

// newTurn is a question with its answer, as far as it has come.
function newTurn(question) {
  const answer = h(
    "div",
    { class: "answer", "aria-busy": "true" },
    dots(),
  );
  const below = h("div", { class: "below" });
  const turn = {
    question,
    answer: "",
    thought: "",
    sluice: {},
    element: h("article", { class: "turn" }, h("h2", { class: "question" }, question), answer, below),
    passed(step) {
      if (turn.answer) return;
      const told = `${step.node}: ${step.verdict}`;
      put(answer, dots(), h("span", { class: "faint small step" }, told));
      say(told);
    },
    think(text) {
      if (!text) return;
      if (!turn.thought) turn.passed({ node: "model", verdict: "thinks" });
      turn.thought += text;
    },
    add(text) {
      if (!text) return;
      turn.answer += text;
      const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
      put(answer, cited(turn));
      if (atEnd) scrollTo(0, document.documentElement.scrollHeight);
    },
    finish(effect) {
      answer.removeAttribute("aria-busy");
      put(answer, turn.answer ? cited(turn) : "");
      if (turn.error) put(below, failure(turn.error));
      else put(below, turn.stopped && h("p", { class: "faint" }, "Stopped."), details(turn, effect));
    },
  };
  return turn;
}

// cited is the answer's text, its [1] as buttons that open the passage.
function cited(turn) {
  const list = turn.sluice.citations ?? [];
  return turn.answer.split(/(\[\d+\])/).map((part) => {
    const citation = /^\[\d+\]$/.test(part) && list.find((c) => c.number === Number(part.slice(1, -1)));
    if (!citation) return part;
    return h(
      "button",
      {
        type: "button",
        class: "cite",
        "aria-label": `Source ${citation.number}: ${titleOf(citation)}`,
        onclick: () => openPassage(citation),
      },
      `${citation.number}`,
    );
  });
}

const titleOf = (c) => c.heading || c.document || c.id;

function details(turn, effect) {
  const { trace = {}, citations = [], nearest = [], notice } = turn.sluice;
  const g = trace.gate;
  const parts = [];
  const told = notice || trace.notice;
  if (told) parts.push(h("p", { class: "notice" }, told));
  if (turn.reason === "length") parts.push(h("p", { class: "notice" }, "The answer was cut at its longest length."));
  for (const s of (trace.checked ?? []).filter((s) => !s.backed)) {
    const missing = s.missing?.length ? `, which do not have ${s.missing.join(", ")}` : "";
    parts.push(h("p", { class: "notice" }, `Not backed by the passages${missing}: ${s.text}`));
  }
  if (trace.second?.warning) parts.push(h("p", { class: "notice" }, trace.second.warning));
  if (g?.warning) parts.push(h("p", { class: "notice" }, g.warning));
  parts.push(
    h(
      "p",
      { class: "facts" },
      g && h("span", { class: `badge ${g.retrieve ? "open" : "closed"}` }, g.retrieve ? "gate open" : "gate closed"),
      g && ` score ${number(g.score)}, cut-off ${number(g.cutoff)} · `,
      trace.second && `passages: ${trace.verdict} (${number(trace.second.score)}, cut-off ${number(trace.second.cutoff)}) · `,
      Number.isFinite(trace.ms?.total) && `${number(trace.ms.total / 1000, 1)} s`,
      trace.style === "quote" && trace.mode === "context" ? " · quoted" : trace.model && ` · ${trace.model}`,
      thumbs(turn),
    ),
  );
  if (citations.length) parts.push(sources(citations));
  else if (nearest.length) parts.push(nearestPassages(nearest));
  if (g && effect) parts.push(decision(g, effect));
  if (turn.thought)
    parts.push(h("details", {}, h("summary", {}, "What the model thought"), h("p", { class: "thought" }, turn.thought)));
  if (trace.promises?.length) {
    parts.push(h("details", {}, h("summary", {}, "What is promised"), trace.promises.map((p) => h("p", {}, `${p}.`))));
  }
  if (trace.ms || trace.steps) parts.push(h("details", {}, h("summary", {}, "The way it took"), flow(trace)));
  return parts;
}

function sources(citations) {
  const used = citations.some((c) => c.cited);
  return passages(
    used ? "Sources" : "Passages that the model was given",
    citations,
    (c) => h("span", { class: "cite" }, `${c.number}`),
    used,
  );
}

// nearestPassages are what was found for a question without an answer: no sources, and nothing refers to them by number.
function nearestPassages(list) {
  return passages("Nearest passages, with the scores of the search (no answer was made of them)", list, (c) =>
    h("span", { class: "faint small" }, number(c.score)),
  );
}

// passages are buttons that open them, with a mark before each; where some are used, the others are pale.
function passages(title, citations, mark, used) {
  return h(
    "details",
    { open: true },
    h("summary", {}, title),
    h(
      "ol",
      { class: "sources plain" },
      citations.map((c) =>
        h(
          "li",
          { class: used && !c.cited ? "unused" : "" },
          h(
            "button",
            { type: "button", class: "source", onclick: () => openPassage(c) },
            mark(c),
            h(
              "span",
              { class: "text" },
              h("b", {}, titleOf(c)),
              h("span", { class: "faint small" }, placeOf(c)),
              c.copies && h("span", { class: "faint small" }, `also in ${c.copies.map(placeOf).join(", ")}`),
              c.sentence && h("q", { class: "small" }, ...words(c.sentence)),
            ),
          ),
        ),
      ),
    ),
  );
}

// decision is the gate's, drawn when it is opened.
function decision(g, effect) {
  const words = Number.isFinite(g.cover)
    ? ` It is the similarity ${number(g.similarity)} and ${number(g.cover_weight, 2)} times the share of the ` +
      `question's words that the passage has, ${number(g.cover)}.`
    : "";
  const picture = chart({ effect, cutoff: g.cutoff, score: g.score, which: "pairs" });
  return h(
    "details",
    {},
    h("summary", {}, "The gate's decision"),
    picture.element,
    h(
      "p",
      {},
      `The best passage scores ${number(g.score)}, ${g.retrieve ? "beyond" : "not beyond"} the cut-off ` +
        `${number(g.cutoff)} ` +
        `(policy ${g.policy}${g.threshold ? `, threshold ${g.threshold}` : ""}).${words} ` +
        `${percent(g.percentile / 100, 0)} of the questions that the calibration knows come no closer to ` +
          "their own passage.",
    ),
  );
}

const thumb =
  "M2.5 9h3v8h-3zM5.5 9.5L9.5 2.5c1.5 0 2.2 1 1.9 2.5L10.8 8H16c1 0 1.7.9 1.5 1.900l-1.2 5.600" +
  "c-.2.900-.9 1.500-1.800 1.500H5.5";

// thumbs are there where the server keeps them.
function thumbs(turn) {
  if (!api.info().feedback || !turn.sluice.trace?.gate?.log_id) return null;
  const button = (value, label) =>
    h(
      "button",
      {
        type: "button",
        class: `quiet thumb ${value}`,
        "aria-label": label,
        "aria-pressed": "false",
        onclick: async (e) => {
          const pressed = e.currentTarget;
          try {
            await api.post("/v1/feedback", { id: turn.sluice.trace.gate.log_id, thumb: value });
            for (const b of pressed.parentElement.querySelectorAll(".thumb")) {
              b.setAttribute("aria-pressed", b === pressed ? "true" : "false");
            }
            say("Thank you.");
          } catch (error) {
            say(error.message);
          }
        },
      },
      svg(
        "svg",
        { width: 17, height: 17, viewBox: "0 0 20 20", "aria-hidden": "true" },
        svg("path", {
          d: thumb,
        }),
      ),
    );
  return h(
    "span",
    { class: "thumbs" },
    button("up", "This answer helped"),
    button("down", "This answer did not help"),
  );
}
