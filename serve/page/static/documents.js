// Index: the documents of a base, by page; new ones are dropped in, old ones deleted.

import { h, put, say, failure, confirm, dialog, count, bytes } from "./dom.js";
import * as api from "./api.js";
import { progress } from "./job.js";

const pageSize = 50;

export default async function documents(view) {
  const state = { q: "", topic: "", offset: 0 };
  const summary = h("p", { class: "faint" });
  const topics = h("div", { class: "chips", role: "group", "aria-label": "Partitions" });
  const list = h("div", { "aria-live": "off" });
  const pages = h("nav", { class: "row", "aria-label": "Pages" });
  let turn = 0;

  async function load() {
    const mine = (turn += 1);
    const answer = await api.get("/v1/documents", {
      q: state.q,
      topic: state.topic,
      offset: state.offset,
      limit: pageSize,
    });
    if (mine !== turn) return; // a later search has been faster
    put(summary, `${count(answer.documents_total)} documents, ${count(answer.chunks_total)} passages`);
    put(
      topics,
      answer.topics.length > 1 && [
        chip("", "all", answer.documents_total),
        answer.topics.map((t) => chip(t.topic, t.topic || "without a topic", t.documents)),
      ],
    );
    put(
      list,
      answer.documents.length
        ? table(answer.documents, remove)
        : h(
            "p",
            { class: "empty" },
            answer.documents_total ? "No document is like that." : "Nothing here yet. Drop files above.",
          ),
    );
    const last = Math.min(state.offset + pageSize, answer.total);
    put(
      pages,
      answer.total > pageSize && [
        h(
          "button",
          { type: "button", disabled: state.offset === 0, onclick: () => go(state.offset - pageSize) },
          "Earlier",
        ),
        h("span", { class: "small" }, `${state.offset + 1} to ${last} of ${count(answer.total)}`),
        h(
          "button",
          { type: "button", disabled: last >= answer.total, onclick: () => go(state.offset + pageSize) },
          "Later",
        ),
      ],
    );
  }

  function go(offset) {
    state.offset = Math.max(0, offset);
    load().catch(fail);
    list.scrollIntoView({ block: "start" });
  }

  function chip(topic, text, n) {
    return h(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": state.topic === topic ? "true" : "false",
        onclick: () => {
          state.topic = topic;
          go(0);
        },
      },
      `${text} `,
      h("span", { class: "faint" }, count(n)),
    );
  }

  const fail = (e) => put(list, failure(e));

  async function remove(d) {
    const sure = await confirm(
      "Delete this document?",
      `${d.title || d.id}: its ${count(d.chunks)} passages are no longer ` +
        "found. The file that it came from stays as it is.",
      "Delete",
      { danger: true },
    );
    if (!sure) return;
    try {
      await api.send("DELETE", api.url(`/v1/documents/${encodeURIComponent(d.id)}`));
      say("Deleted.");
      await load();
    } catch (e) {
      fail(e);
    }
  }

  let wait = 0;
  const search = h("input", {
    id: "search",
    type: "search",
    placeholder: "Search ids, titles, sources",
    oninput: () => {
      clearTimeout(wait);
      wait = setTimeout(() => {
        state.q = search.value.trim();
        go(0);
      }, 200);
    },
  });
  put(
    view,
    h("h1", {}, "Index"),
    summary,
    drop(() => load().catch(fail)),
    h("div", { class: "row" }, h("label", { for: "search", class: "hidden" }, "Search"), search),
    topics,
    list,
    pages,
  );
  await load();
  return () => {
    turn += 1;
    clearTimeout(wait);
  };
}

function table(documents, remove) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Documents" },
    h(
      "table",
      { class: "documents" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["document", "partition", "passages", "added", ""].map((t) =>
            h(
              "th",
              { scope: "col", class: t === "passages" ? "right" : "" },
              t || h("span", { class: "hidden" }, "delete"),
            ),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        documents.map((d) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              h("button", { type: "button", class: "link", onclick: () => openDocument(d) }, d.title || d.id),
              h("div", { class: "faint small source" }, d.title ? d.id : d.source),
              d.partial && h("span", { class: "badge closed" }, "incomplete"),
            ),
            h("td", {}, d.topic),
            h("td", { class: "right" }, count(d.chunks)),
            h("td", { class: "small" }, d.added ? day(d.added) : ""),
            h(
              "td",
              {},
              h(
                "button",
                {
                  type: "button",
                  class: "quiet",
                  "aria-label": `Delete ${d.title || d.id}`,
                  onclick: () => remove(d),
                },
                "×",
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

const day = (time) =>
  new Date(time).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });

// openDocument shows a document with its passages; at is the id of the passage that it is opened at, if any.
export async function openDocument(d, at) {
  const body = h("div", { class: "chunks", tabindex: "0" }, "…");
  const box = dialog(d.title || d.id, h("p", { class: "faint small source" }, d.source), body);
  box.classList.add("wide");
  const load = async (offset) => {
    const answer = await api.get(`/v1/documents/${encodeURIComponent(d.id)}`, { offset, limit: pageSize });
    const more = offset + answer.chunks.length < answer.document.chunks && answer.chunks.length > 0;
    const button =
      more &&
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            button.remove();
            load(offset + answer.chunks.length).catch((e) => body.append(failure(e)));
          },
        },
        "More",
      );
    if (offset === 0) put(body);
    body.append(
      ...answer.chunks.map((c) =>
        h("article", { class: c.id === at ? "here" : "" }, c.heading && h("h3", {}, c.heading), h("p", {}, c.text)),
      ),
      button || "",
    );
    const here = at && body.querySelector("article.here");
    if (here) here.scrollIntoView({ block: "center" });
    else if (at && more && offset < 40 * pageSize) {
      button.remove();
      await load(offset + answer.chunks.length);
    }
  };
  await load(0).catch((e) => put(body, failure(e)));
}

// drop is where files are dropped or chosen, and how far their way into the base is.
function drop(changed) {
  const jobs = h("div", { class: "jobs", "aria-live": "polite" });
  const file = h("input", {
    id: "files",
    type: "file",
    multiple: true,
    class: "hidden",
    onchange: () => {
      send([...file.files]);
      file.value = "";
    },
  });
  const zone = h(
    "div",
    { class: "drop" },
    h("label", { for: "files", class: "button" }, "Choose files"),
    file,
    h(
      "span",
      { class: "faint" },
      "or drop them here: text, Markdown, HTML, PDF, tables, Office documents, books, mail, notebooks, source code, archives",
    ),
  );
  const over = (on) => (e) => {
    e.preventDefault();
    zone.classList.toggle("over", on);
  };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", (e) => {
    over(false)(e);
    send([...e.dataTransfer.files]);
  });

  async function send(files) {
    if (!files.length) return;
    const form = new FormData();
    for (const f of files) form.append("file", f, f.name);
    const name = files.length === 1 ? files[0].name : `${files.length} files`;
    const text = h("div", { class: "small" }, `${name}, ${bytes(files.reduce((n, f) => n + f.size, 0))}`);
    const place = h("div");
    jobs.prepend(h("div", { class: "card upload" }, text, place));
    try {
      const bar = h("progress", { max: "1", value: "0", "aria-label": `Upload of ${name}` });
      put(place, bar);
      const { job } = await api.upload("/v1/documents", form, (done, total) => {
        bar.value = total ? done / total : 0;
      });
      const last = await progress(place, job);
      put(place, outcome(last));
      changed();
    } catch (e) {
      put(place, failure(e));
    }
  }
  return h("section", { "aria-label": "Add documents" }, zone, jobs);
}

// outcome says what has come of an upload.
function outcome(job) {
  const r = job.result ?? {};
  const skipped = (job.skipped ?? []).map((s) => h("li", {}, `${s.source}: ${s.error}`));
  const told =
    job.state === "cancelled"
      ? "Cancelled; what was committed stays."
      : job.state === "failed"
        ? ""
        : `${count(r.documents)} documents, ${count(r.chunks)} passages, ${count(r.embedded)} of them new.`;
  return [
    job.error && failure(job.error),
    told && h("p", { class: "small" }, told),
    skipped.length > 0 && h("ul", { class: "small" }, skipped),
  ];
}
