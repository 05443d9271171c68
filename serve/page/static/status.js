// Status: what the server has loaded and what it runs on.

import { h, put, failure } from "./dom.js";
import * as api from "./api.js";

const every = 5000; // milliseconds between two questions

export default async function status(view) {
  const place = h("div", { class: "cards" });
  put(view, h("h1", {}, "Status"), place);
  const load = async () => {
    const [info, jobs] = await Promise.all([api.get("/info"), api.get("/v1/jobs").catch(() => ({ jobs: [] }))]);
    put(
      place,
      section("Server", info),
      jobs.jobs.length > 0 &&
        h(
          "section",
          { class: "card" },
          h("h2", {}, "Jobs"),
          h(
            "ul",
            { class: "plain" },
            jobs.jobs.map((j) =>
              h(
                "li",
                {},
                h(
                  "span",
                  { class: `badge ${j.state === "done" ? "open" : j.state === "failed" ? "closed" : ""}` },
                  j.state,
                ),
                ` ${j.kind}`,
                j.names?.length && ` of ${j.names.join(", ")}`,
                h("span", { class: "faint small" }, ` ${new Date(j.created).toLocaleTimeString()}`),
              ),
            ),
          ),
        ),
    );
  };
  await load();
  const timer = setInterval(() => load().catch((e) => put(place, failure(e))), every);
  return () => clearInterval(timer);
}

const title = (name) => name.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());
const plain = (v) => v === null || typeof v !== "object";

// section shows an object: its plain values as a list, what has parts of its own as sections below.
function section(name, value) {
  const facts = Object.entries(value).filter(([, v]) => plain(v) && v !== "" && v !== null);
  const parts = Object.entries(value).filter(([, v]) => !plain(v) && Object.keys(v).length > 0);
  return [
    h(
      "section",
      { class: "card" },
      h("h2", {}, title(name)),
      h(
        "dl",
        { class: "facts" },
        facts.map(([k, v]) => [h("dt", {}, title(k)), h("dd", {}, text(v))]),
        parts
          .filter(([, v]) => Array.isArray(v) && v.every(plain))
          .map(([k, v]) => [h("dt", {}, title(k)), h("dd", {}, v.map(text).join(", "))]),
      ),
    ),
    parts.filter(([, v]) => !Array.isArray(v)).map(([k, v]) => section(k, v)),
    parts
      .filter(([, v]) => Array.isArray(v) && !v.every(plain))
      .map(([k, v]) => v.map((each) => section(`${k.replace(/s$/, "")} ${each.name ?? each.id ?? ""}`, each))),
  ];
}

const text = (v) =>
  v === true
    ? "yes"
    : v === false
      ? "no"
      : typeof v === "number" && !Number.isInteger(v)
        ? `${Math.round(v * 1e4) / 1e4}`
        : `${v}`;
