// Elements from calls. All text goes in as text nodes: nothing that a server or a
// person wrote is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

// h makes an element. props: class, on (listeners), data (data-*), prop (DOM
// properties); everything else is an attribute, left out if null or false.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// svg is h for SVG.
export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) el.addEventListener(event, listener);
    else if (name === "data") Object.assign(el.dataset, value);
    else if (name === "prop") Object.assign(el, value);
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  append(el, children);
  return el;
}

function append(el, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(el, child);
    else if (child !== null && child !== undefined && child !== false) el.append(child);
  }
}

// put replaces what is in el. The focus stays on what has the same id, and the cursor
// in it where it was.
export function put(el, ...children) {
  steady(el, () => {
    const { id, selectionStart: from, selectionEnd: to } = el.contains(document.activeElement) ? document.activeElement : {};
    el.replaceChildren();
    append(el, children);
    const again = id && el.querySelector(`#${CSS.escape(id)}`);
    if (!again) return;
    again.focus({ preventScroll: true });
    if (typeof from === "number") again.setSelectionRange?.(from, to);
  });
  return el;
}

// putScrolled replaces what is in a pane and leaves it scrolled to where it was.
export function putScrolled(pane, ...children) {
  steady(pane, () => {
    const scrolled = pane.querySelector(".entry-scroll")?.scrollTop ?? 0;
    put(pane, ...children);
    const body = pane.querySelector(".entry-scroll");
    if (body) body.scrollTop = scrolled;
  });
}

// While a button is down, nothing that is seen is drawn anew: a browser tells no click
// of an element that was replaced, or moved away, since it was pressed.
let pressed = false;
const later = new Map(); // element → how to draw it when the button is released

// steady draws el, now or when the button is released; the last drawing counts.
export function steady(el, draw) {
  later.delete(el);
  if (pressed && el.isConnected) later.set(el, draw);
  else draw();
}

function release(event) {
  if (!pressed || event.buttons) return;
  pressed = false;
  setTimeout(() => { // after the click
    for (const [el, draw] of later) {
      if (pressed) return;
      steady(el, draw);
    }
  });
}

addEventListener("pointerdown", (event) => (pressed ||= event.button === 0));
// The end of a drag on a scroll bar is told to nobody, so any movement without a button
// is one, and so is the choice in a list that has opened.
for (const end of ["pointerup", "pointercancel", "pointermove", "input", "blur"]) addEventListener(end, release);

const icons = {
  fold: "M4 2.5 8 6.5l4-4M4 13.5 8 9.5l4 4",
  unfold: "M4 6.5 8 2.5l4 4M4 9.5 8 13.5l4-4",
  lines: "M2.5 4h11M2.5 8h11M2.5 12h7",
  file: "M4 1.5h5L12.5 5v9.5h-8.5zM9 1.5V5h3.5",
  folder: "M1.5 3.5h5l1.5 2h6.5v8h-13z",
  right: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  back: "M10 3 5 8l5 5",
  plus: "M8 2.5v11M2.5 8h11",
  trash: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9",
  clock: "M8 4.5V8l2.5 1.5M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z",
  warn: "M8 2 1.5 13.5h13zM8 6.5v3.2M8 11.4v.6",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3l3.7 3.7",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13",
  moon: "M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z",
  auto: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 1.5v13M8 5h5.2M8 8h6.4M8 11h5.2",
  link: "M6.5 9.5l3-3M7 4.6l1.6-1.6a2.8 2.8 0 0 1 4 4L11 8.6M9 11.4l-1.6 1.6a2.8 2.8 0 0 1-4-4L5 7.4",
  box: "M1.5 4.5 8 1.5l6.5 3v7L8 14.5l-6.5-3zM1.5 4.5 8 7.5l6.5-3M8 7.5v7",
};

// icon is a small picture that says nothing to a screen reader.
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: icons[name] }));
}

// button makes a button; its label is its text, or its accessible name if it has
// only an icon.
export function button(label, onclick, { icon: picture, kind, bare, disabled, id, title } = {}) {
  return h("button", {
    type: "button", class: `btn ${kind ?? ""} ${bare ? "bare" : ""}`, id, disabled,
    title: title ?? (bare ? label : null), "aria-label": bare ? label : null, on: { click: onclick },
  }, picture ? icon(picture) : null, bare ? null : h("span", null, label));
}

// tablist makes a row of tabs. The keyboard gets to the chosen one, and from there to the others by
// arrows. draw shows tabs: {id, text, chosen, panel, go, disabled, title}, of which panel is the id of
// what the tab shows, and go turns to it.
export function tablist(label, kind = "") {
  const el = h("div", { class: `tabs ${kind}`, role: "tablist", "aria-label": label, on: { keydown: (event) => {
    const all = [...el.querySelectorAll(":enabled")], at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = all.at(to % all.length);
    next.focus(); // and stays there, see put
    next.click();
  } } });
  const draw = (tabs) => put(el, tabs.map(({ id, text, chosen, panel, go, disabled, title }) => h("button", {
    type: "button", role: "tab", class: "tab", id, "aria-selected": String(chosen), "aria-controls": panel, tabindex: chosen ? null : "-1", disabled, title, on: { click: go },
  }, text)));
  return { el, draw };
}

// debounce runs the last call when nothing was called for ms.
export function debounce(ms, fn) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), ms);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

// throttle runs at once and then at most every ms, the last call for certain.
export function throttle(ms, fn) {
  let timer = 0, again = false;
  const run = () => {
    if (timer) {
      again = true;
      return;
    }
    fn();
    timer = setTimeout(() => {
      timer = 0;
      if (!again) return;
      again = false;
      run();
    }, ms);
  };
  run.cancel = () => clearTimeout(timer);
  return run;
}

// nextFrame joins calls into one before the next paint; a page in the background
// paints never, so a timer is the longstop.
export function nextFrame(fn) {
  let due = false;
  const run = () => {
    if (!due) return;
    due = false;
    fn();
  };
  return () => {
    if (due) return;
    due = true;
    requestAnimationFrame(run);
    setTimeout(run, 100);
  };
}
