// The page's frame: views by the address' fragment, and the choice of a knowledge base.

import { put, h, failure } from "./dom.js";
import * as api from "./api.js";
import ask from "./ask.js";
import calibration from "./calibration.js";
import documents from "./documents.js";
import status from "./status.js";

const views = { ask, calibration, index: documents, status };
const titles = { ask: "Ask", calibration: "Calibration", index: "Index", status: "Status" };
const main = document.getElementById("main");
let leave = null; // of the view that is shown

async function show(focus) {
  const name = location.hash.replace(/^#\//, "") || "ask";
  const view = views[name] ?? ask;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === `#/${views[name] ? name : "ask"}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${titles[name] ?? titles.ask} · Sluice`;
  leave?.();
  leave = null;
  const content = h("div", { class: `view ${name}` });
  put(main, content);
  try {
    leave = await view(content);
  } catch (e) {
    put(content, h("h1", {}, titles[name]), failure(e));
  }
  if (focus) main.focus({ preventScroll: true });
}

// bases fills in the choice of a knowledge base; it is hidden where there is one only.
async function bases() {
  const select = document.getElementById("base");
  const list = api.info().stores ?? [];
  put(
    select,
    list.map((b) => h("option", { value: b.name }, b.name)),
  );
  select.closest("label").hidden = list.length < 2;
  const kept = sessionStorage.getItem("sluice-base");
  if (list.some((b) => b.name === kept)) api.setBase(kept);
  else api.setBase(list[0]?.name ?? ""); // the first is the default one;
  select.value = api.base();
  select.addEventListener("change", () => {
    api.setBase(select.value);
    sessionStorage.setItem("sluice-base", select.value);
    show(false);
  });
}

async function start() {
  try {
    api.setInfo(await api.get("/info"));
  } catch (e) {
    put(main, failure(e));
    return;
  }
  await bases();
  addEventListener("hashchange", () => show(true));
  await show(false);
}

start();
