// Talk: conversations that outlive the page, in the browser alone. Where the server needs keys, more than one person may
// use this browser, and they end with the tab.

import * as api from "./api.js";

const most = 50; // turns of a conversation that are kept

const name = (base) => `sluice-talk ${base ?? ""}`;
const place = () => (api.info().keys_are_needed ? sessionStorage : localStorage);

// read returns the kept turns of a base's conversation: { question, answer, thought, reason, sluice }.
export function read(base) {
  try {
    const turns = JSON.parse(place().getItem(name(base)) ?? "[]");
    return turns
      .filter((t) => typeof t?.question === "string" && typeof t.answer === "string")
      .map(({ question, answer, thought, reason, sluice }) => ({
        question,
        answer,
        thought: thought ?? "",
        reason,
        sluice: sluice ?? {},
      }));
  } catch {
    return []; // there is no place, or something else lies there
  }
}

// keep keeps the answered turns. Where there is no room for all, it keeps the latest.
export function keep(base, turns) {
  let list = turns
    .filter((t) => t.answer && !t.error)
    .slice(-most)
    .map(({ question, answer, thought, reason, sluice }) => ({ question, answer, thought, reason, sluice }));
  for (;;) {
    try {
      if (list.length === 0) place().removeItem(name(base));
      else place().setItem(name(base), JSON.stringify(list));
      return;
    } catch {
      if (list.length === 0) return; // there is no place at all
      list = list.slice(Math.ceil(list.length / 2));
    }
  }
}

// markdown writes a conversation as `sluice chat` saves it.
export function markdown(turns) {
  return turns
    .filter((t) => t.answer)
    .map((t) => {
      const used = (t.sluice.citations ?? []).filter((c) => c.cited);
      const lines = used.map((c) => `- [${c.number}] ${c.source}${c.heading ? `, ${c.heading}` : ""}`);
      return [`## ${t.question.replaceAll("\n", " ")}`, t.answer.trim(), lines.join("\n")].filter(Boolean).join("\n\n");
    })
    .join("\n\n")
    .concat("\n");
}
