// Elements are made by these functions only: whatever comes from the server or the user becomes a text node, never
// markup.

const svgSpace = "http://www.w3.org/2000/svg";

// h makes an element. Attributes that are functions are listeners ("onclick"); false, null and undefined are left out.
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// svg is h for drawings.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svgSpace, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return element;
}

// put replaces what an element holds.
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

// say tells a screen reader what has changed.
export function say(text) {
  document.getElementById("status").textContent = text;
}

// dialog opens a modal window; it closes by Escape, its button, or close(), and gives the focus back.
export function dialog(title, ...content) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const box = h("dialog", { "aria-labelledby": "dialog-title" });
  const close = () => box.close();
  put(
    box,
    h(
      "div",
      { class: "dialog-head" },
      heading,
      h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: close }, "×"),
    ),
    ...content,
  );
  box.addEventListener("click", (e) => {
    if (e.target === box) close();
  });
  const before = document.activeElement;
  box.addEventListener("close", () => {
    box.remove();
    before?.focus?.();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

// confirm asks before something is changed; it resolves to whether it may be.
export function confirm(title, text, yes, { danger = false } = {}) {
  return new Promise((resolve) => {
    let answer = false;
    const box = dialog(
      title,
      h("p", {}, text),
      h(
        "div",
        { class: "row end" },
        h("button", { type: "button", onclick: () => box.close() }, "Cancel"),
        h(
          "button",
          {
            type: "button",
            class: danger ? "danger" : "primary",
            onclick: () => {
              answer = true;
              box.close();
            },
          },
          yes,
        ),
      ),
    );
    box.addEventListener("close", () => resolve(answer));
  });
}

// failure shows an error where the content would be.
export function failure(error) {
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("p", {}, error.message),
    error.hint && h("p", { class: "faint" }, error.hint),
  );
}

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
export const count = (n) => Number(n ?? 0).toLocaleString("en");
export const number = (x, digits = 3) => Number(x).toFixed(digits);

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}
