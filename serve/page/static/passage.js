// A passage in a window, with the sentence marked that is nearest to the question.

import { h, dialog, failure, put } from "./dom.js";
import * as api from "./api.js";
import { openDocument } from "./documents.js";

// words returns a sentence, the words in bold in which a reader finds the answer. Places are bytes of UTF-8.
export function words(sentence) {
  if (!sentence.answer) return [sentence.text];
  const raw = new TextEncoder().encode(sentence.text);
  const [from, to] = [sentence.answer.start - sentence.start, sentence.answer.end - sentence.start];
  const cut = (from, to) => new TextDecoder().decode(raw.subarray(from, to));
  return [cut(0, from), h("strong", {}, cut(from, to)), cut(to)];
}

// marked splits a text at a sentence's place, which is given in bytes of UTF-8.
export function marked(text, sentence) {
  if (!sentence) return [text];
  const raw = new TextEncoder().encode(text);
  const cut = (from, to) => new TextDecoder().decode(raw.subarray(from, to));
  if (sentence.end > raw.length || cut(sentence.start, sentence.end) !== sentence.text) {
    const at = text.indexOf(sentence.text); // the text has changed since, or is another part of it
    if (at < 0 || !sentence.text) return [text];
    return [text.slice(0, at), h("mark", {}, ...words(sentence)), text.slice(at + sentence.text.length)];
  }
  return [cut(0, sentence.start), h("mark", {}, ...words(sentence)), cut(sentence.end)];
}

// placeOf says where in a document a passage stands: the page of a PDF, or the anchor.
export function placeOf(citation) {
  const page = /^page=(\d+)(?:&ocr=(\d+))?$/.exec(citation.anchor ?? "");
  if (page) {
    const read = page[2] ? ` (read in a picture, ${page[2]} % sure)` : "";
    return `${citation.document}, page ${page[1]}${read}`;
  }
  return [citation.document, citation.anchor && `#${citation.anchor}`].filter(Boolean).join("");
}

export async function open(citation) {
  const body = h("div", { class: "passage", tabindex: "0" }, "…");
  const shown = (c) => () => openDocument({ id: c.document, source: c.source }, c.id);
  const box = dialog(
    citation.heading || citation.document || citation.id,
    h("p", { class: "faint small source" }, placeOf(citation)),
    body,
    !citation.web && h("button", { type: "button", onclick: shown(citation) }, "Show it in its document"),
    (citation.copies ?? []).map((c) => h("button", { type: "button", onclick: shown(c) }, `Also in ${placeOf(c)}`)),
  );
  box.classList.add("wide");
  try {
    const chunk = await api.get(`/v1/chunks/${encodeURIComponent(citation.id)}`);
    put(body, marked(chunk.text, citation.sentence));
    body.querySelector("mark")?.scrollIntoView({ block: "nearest" });
  } catch (e) {
    put(body, failure(e));
  }
}
