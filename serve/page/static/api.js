// Requests to the server that this page came from; there are no others.

import { h, dialog } from "./dom.js";

const keyName = "sluice-api-key";
const state = { base: "", info: {} };

export const base = () => state.base;
export const setBase = (name) => {
  state.base = name;
};
export const info = () => state.info;
export const setInfo = (value) => {
  state.info = value;
};

export class RequestError extends Error {
  constructor(status, error) {
    super(error.message || `the server answered with status ${status}`);
    this.status = status;
    this.code = error.code;
    this.hint = error.hint;
  }
}

// url adds parameters to a path, which becomes one below the page's own.
export function url(path, parameters = {}) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== "" && value !== null && value !== undefined) q.set(name, value);
  }
  const text = q.toString();
  return (path.startsWith("/") ? path.slice(1) : path) + (text ? `?${text}` : "");
}

function headers(more = {}) {
  const key = sessionStorage.getItem(keyName);
  if (key) more.Authorization = `Bearer ${key}`;
  if (state.base) more["Sluice-Store"] = state.base;
  return more;
}

let asking = null; // the window that asks for a key, while it is open

function askForKey() {
  asking ??= new Promise((resolve) => {
    const field = h("input", { type: "password", name: "key", autocomplete: "off", required: true });
    const box = dialog(
      "API key",
      h(
        "form",
        {
          onsubmit: (e) => {
            e.preventDefault();
            sessionStorage.setItem(keyName, field.value.trim());
            box.close();
          },
        },
        h("p", {}, "This server wants a key. It is kept until you close this tab."),
        h("label", {}, "Key ", field),
        h("div", { class: "row end" }, h("button", { class: "primary" }, "Use it")),
      ),
    );
    field.focus();
    box.addEventListener("close", () => {
      asking = null;
      resolve(field.value.trim() !== "");
    });
  });
  return asking;
}

// send makes a request and returns the response, once it is one of success.
export async function send(method, path, { json, form, signal } = {}) {
  for (;;) {
    const response = await fetch(path, {
      method,
      signal,
      credentials: "omit",
      cache: "no-store",
      headers: headers(json === undefined ? {} : { "Content-Type": "application/json" }),
      body: form ?? (json === undefined ? undefined : JSON.stringify(json)),
    }).catch((e) => {
      throw e.name === "AbortError" ? e : new RequestError(0, { message: "the server cannot be reached" });
    });
    if (response.ok) return response;
    const error = (await response.json().catch(() => ({}))).error ?? {};
    if (response.status !== 401 || !(await askForKey())) throw new RequestError(response.status, error);
  }
}

export const get = async (path, parameters, options) => (await send("GET", url(path, parameters), options)).json();
export const post = async (path, json, options) => (await send("POST", url(path), { json, ...options })).json();

// upload sends files and tells how much has gone; fetch cannot tell, so it is an XMLHttpRequest.
export function upload(path, form, progress) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open("POST", url(path));
    for (const [name, value] of Object.entries(headers())) x.setRequestHeader(name, value);
    x.upload.addEventListener("progress", (e) => progress(e.loaded, e.total));
    x.addEventListener("error", () => reject(new RequestError(0, { message: "the server cannot be reached" })));
    x.addEventListener("load", () => {
      let answer = {};
      try {
        answer = JSON.parse(x.responseText);
      } catch {
        /* an answer without a body */
      }
      if (x.status < 300) resolve(answer);
      else reject(new RequestError(x.status, answer.error ?? {}));
    });
    x.send(form);
  });
}

// events yields what an event stream sends, as {event, data}; data is text.
export async function* events(response) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks(response.body)) {
    rest += decoder.decode(chunk, { stream: true });
    const parts = rest.split(/\r\n\r\n|\n\n|\r\r/);
    rest = parts.pop();
    for (const part of parts) {
      let event = "message";
      const data = [];
      for (const line of part.split(/\r\n|\n|\r/)) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length) yield { event, data: data.join("\n") };
    }
  }
}

async function* chunks(body) {
  // Safari's streams cannot be iterated
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const over = (job) => ["done", "failed", "cancelled"].includes(job.state);

// follow tells onChange how a job goes until it has ended, and returns it. A stream that breaks off is asked for anew.
export async function follow(job, onChange) {
  const path = url(`/v1/jobs/${encodeURIComponent(job.id)}/events`);
  onChange(job);
  while (!over(job)) {
    for await (const { data } of events(await send("GET", path))) {
      const said = JSON.parse(data);
      if (said.error) break; // the server ends; the job goes on when it starts again
      job = said;
      onChange(job);
      if (over(job)) break;
    }
  }
  return job;
}
