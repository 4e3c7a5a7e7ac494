// The first of many names, and how many more there are.

import { h, put } from "./dom.js";
import { t } from "./i18n.js";
import { isolated, name } from "./names.js";

const FEW = 5;

// few shows the first names; the others come when they are asked for. show makes
// what is shown of one.
export function few(names, show = name) {
  const list = (some) => some.map((one, i) => [i ? ", " : "", show(one)]);
  const first = list(names.slice(0, FEW));
  if (names.length <= FEW) return first;
  const rest = h("span", { class: "rest-of-names" });
  const more = h("button", { type: "button", class: "link", "aria-expanded": "false", on: { click: () => {
    const open = more.getAttribute("aria-expanded") === "false";
    more.setAttribute("aria-expanded", String(open));
    put(rest, open ? [", ", list(names.slice(FEW))] : null);
    put(more, open ? t("names.fewer") : t("names.more", { n: names.length - FEW }));
  } } }, t("names.more", { n: names.length - FEW }));
  return [first, rest, " ", more];
}

// fewText is few for texts that t puts together; what it holds is isolated already.
export function fewText(names) {
  const first = names.slice(0, FEW).map(isolated).join(", ");
  return new String(names.length > FEW ? `${first} ${t("names.more", { n: names.length - FEW })}` : first);
}
