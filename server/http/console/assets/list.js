// A list of any length of which only the visible rows exist.

import { h, nextFrame, steady } from "./dom.js";

const SPARE = 6; // rows above and below the visible ones

// createList makes one. row(item, index) fills a row and returns an element;
// choose(item, index) is called on click and Enter; nearEnd when the last rows
// come in sight; key(event, item) handles other keys. A tree sets role "tree" and
// gives its rows aria-level and the like.
export function createList({ label, rowHeight, row, choose, nearEnd, key, role = "listbox", id }) {
  const rowRole = role === "tree" ? "treeitem" : "option";
  const space = h("div", { class: "list-space", role: "presentation" });
  const box = h("div", { class: "list", role, tabindex: "0", "aria-label": label, id }, space);
  const uid = `list-${Math.random().toString(36).slice(2)}`;
  let items = []; // that are drawn
  let newest = items;
  let active = -1; // where the keyboard is
  let selected = () => false;
  const shown = new Map(); // index → element

  const height = () => (typeof rowHeight === "function" ? rowHeight() : rowHeight);

  function draw() {
    const each = height();
    space.style.height = `${items.length * each}px`;
    const first = Math.max(0, Math.floor(box.scrollTop / each) - SPARE);
    const last = Math.min(items.length, Math.ceil((box.scrollTop + box.clientHeight) / each) + SPARE);
    for (const [index, el] of shown) {
      if (index < first || index >= last) {
        el.remove();
        shown.delete(index);
      }
    }
    let after = null;
    for (let index = first; index < last; index++) {
      let el = shown.get(index);
      if (!el) {
        el = row(items[index], index);
        el.classList.add("row");
        el.id = `${uid}-${index}`;
        el.setAttribute("role", rowRole);
        el.setAttribute("aria-setsize", items.length);
        el.setAttribute("aria-posinset", index + 1);
        el.style.transform = `translateY(${index * each}px)`;
        el.style.height = `${each}px`;
        shown.set(index, el);
        if (after) after.after(el);
        else space.prepend(el);
      }
      const chosen = selected(items[index]);
      el.classList.toggle("selected", chosen);
      el.setAttribute("aria-selected", chosen);
      el.classList.toggle("active", index === active);
      after = el;
    }
    if (active >= first && active < last) box.setAttribute("aria-activedescendant", `${uid}-${active}`);
    else box.removeAttribute("aria-activedescendant");
    if (nearEnd && items.length && last >= items.length - 20) nearEnd();
  }

  const redraw = nextFrame(draw);

  // show replaces the items and draws the visible ones anew, at once: until the
  // next frame the list would be empty.
  function show(list) {
    newest = list;
    steady(box, () => {
      items = newest;
      if (active >= items.length) active = items.length - 1;
      for (const el of shown.values()) el.remove();
      shown.clear();
      draw();
    });
  }

  function move(to) {
    if (!items.length) return;
    active = Math.max(0, Math.min(items.length - 1, to));
    const each = height();
    const top = active * each;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + each > box.scrollTop + box.clientHeight) box.scrollTop = top + each - box.clientHeight;
    draw();
  }

  box.addEventListener("scroll", redraw, { passive: true });
  box.addEventListener("click", (event) => {
    const index = Math.floor((event.clientY - space.getBoundingClientRect().top) / height());
    if (index < 0 || index >= items.length) return;
    active = index;
    draw();
    choose?.(items[active], active, event);
  });
  box.addEventListener("focus", () => {
    if (active < 0 && items.length) move(Math.max(0, items.findIndex(selected)));
  });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(box.clientHeight / height()) - 1);
    const steps = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: items.length - 1 };
    if (event.key in steps) move(steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") {
      if (items[active] !== undefined) choose?.(items[active], active, event);
    } else if (!key?.(event, items[active], active)) return;
    event.preventDefault();
  });
  const watcher = new ResizeObserver(redraw);
  watcher.observe(box);

  return {
    el: box,
    get items() {
      return newest;
    },
    // set replaces the items.
    set: show,
    // refresh draws the visible rows anew.
    refresh: () => show(newest),
    select(test) {
      selected = test;
      redraw();
    },
    // reveal scrolls a row into sight and puts the keyboard there.
    reveal(index) {
      if (index >= 0) steady(space, () => move(index));
    },
    close: () => watcher.disconnect(),
  };
}
