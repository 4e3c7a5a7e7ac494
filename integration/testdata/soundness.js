() => {
  const faults = [];
  const seen = (el) => {
    const r = el.getBoundingClientRect();
    return r.width > 1 && r.height > 1 && el.checkVisibility({ visibilityProperty: true });
  };
  const short = (el) => `<${el.tagName.toLowerCase()}${el.id ? ` id=${el.id}` : ""} class="${el.getAttribute("class") ?? ""}"> ${(el.textContent ?? "").trim().slice(0, 40)}`;
  const open = document.querySelector("dialog[open]");
  const all = (css, root = document) => [...root.querySelectorAll(css)].filter((el) => el.checkVisibility());

  // Headings.
  const levels = all("h1, h2, h3, h4, h5, h6").map((el) => Number(el.tagName[1]));
  if (levels.filter((n) => n === 1).length !== 1) faults.push(`${levels.filter((n) => n === 1).length} headings of the first level`);
  if (levels[0] !== 1) faults.push(`the first heading is of level ${levels[0]}`);
  levels.forEach((n, i) => i > 0 && n > levels[i - 1] + 1 && faults.push(`a heading of level ${n} below one of ${levels[i - 1]}`));

  // Names.
  const named = (el) => el.getAttribute("aria-label") || [...(el.labels ?? [])].some((label) => label.textContent.trim())
    || (el.getAttribute("aria-labelledby") ?? "").split(" ").some((id) => document.getElementById(id)?.textContent.trim());
  for (const el of all("input, select, textarea")) if (!named(el) && el.getAttribute("aria-hidden") !== "true") faults.push(`no name: ${short(el)}`);
  for (const el of all("button, a[href]")) if (!named(el) && !el.textContent.trim()) faults.push(`no name: ${short(el)}`);
  for (const el of all("dialog[open], nav, [role=tablist], [role=tabpanel], [role=region], [role=listbox], [role=tree]")) if (!named(el)) faults.push(`no name: ${short(el)}`);

  // Tabs and the navigation.
  for (const list of all("[role=tablist]")) {
    const tabs = all("[role=tab]", list);
    if (tabs.length !== list.children.length) faults.push(`what is no tab is among tabs: ${short(list)}`);
    if (tabs.filter((tab) => tab.getAttribute("aria-selected") === "true").length !== 1) faults.push(`not one tab is chosen: ${short(list)}`);
    if (tabs.filter((tab) => tab.tabIndex === 0).length !== 1) faults.push(`not one tab is reached by the keyboard: ${short(list)}`);
    for (const tab of tabs) {
      if (!["true", "false"].includes(tab.getAttribute("aria-selected"))) faults.push(`chosen or not: ${short(tab)}`);
      const panel = document.getElementById(tab.getAttribute("aria-controls"));
      if (!panel) faults.push(`a tab of nothing: ${short(tab)}`);
      else if (tab.getAttribute("aria-selected") === "true" && !seen(panel)) faults.push(`what a chosen tab shows is not there: ${short(tab)}`);
    }
  }
  for (const el of document.querySelectorAll("[aria-selected]")) if (!["tab", "option", "treeitem"].includes(el.getAttribute("role"))) faults.push(`aria-selected without a role for it: ${short(el)}`);
  for (const nav of all("nav")) if (nav.querySelectorAll("[aria-current=page]").length > 1) faults.push(`several places at once: ${short(nav)}`);

  // Colours.
  const parse = (text) => {
    const numbers = text.match(/[\d.]+(e-?\d+)?/g)?.map(Number) ?? [0, 0, 0, 0];
    const unit = text.startsWith("color(") ? 1 : 255;
    return [...numbers.slice(0, 3).map((n) => n / unit), numbers[3] ?? 1];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = (el) => {
    const layers = [];
    for (let at = el; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [1, 1, 1, 1]);
  };
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => sum + share * (c[i] <= 0.04045 ? c[i] / 12.92 : ((c[i] + 0.055) / 1.055) ** 2.4), 0);
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const judge = (el, colour, under, least, what) => {
    const got = contrast(over(parse(colour), under), under);
    if (got < least - 0.01) faults.push(`contrast ${got.toFixed(2)} of ${what}: ${short(el)}`);
  };
  const walker = document.createTreeWalker(open ?? document.body, NodeFilter.SHOW_TEXT);
  const judged = new Set();
  while (walker.nextNode()) {
    const el = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || judged.has(el) || !seen(el) || el.closest(":disabled, noscript, option, textarea, script, .flash")) continue;
    judged.add(el);
    const style = getComputedStyle(el), size = parseFloat(style.fontSize);
    judge(el, style.color, ground(el), size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5, "text");
  }
  for (const el of all("input:not([type=radio], [type=checkbox], [type=file]), select", open ?? document.body)) {
    if (el.disabled || !seen(el)) continue;
    judge(el, getComputedStyle(el).borderTopColor, ground(el.parentElement), 3, "an edge");
    if (el.placeholder && !el.value) judge(el, getComputedStyle(el, "::placeholder").color, ground(el), 4.5, "a placeholder");
  }

  // Room. What scrolls or ends in an ellipsis may be longer than its box, everything else not.
  for (const el of all("body *", document)) {
    const style = getComputedStyle(el);
    if (!seen(el) || el.closest(".list, .editor, textarea, svg, .hidden, .skip") || el.matches("input, select, option")) continue;
    if (el.scrollWidth > el.clientWidth + 1 && el.clientWidth > 0 && style.overflowX !== "visible" && style.textOverflow !== "ellipsis" && !el.matches("nav, pre")) faults.push(`cut off at its side: ${short(el)}`);
  }
  const apart = (list) => list.forEach((a, i) => list.slice(i + 1).forEach((b) => {
    const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
    if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1) faults.push(`${short(a)} lies on ${short(b)}`);
  }));
  const header = document.querySelector("header.top");
  if (!open && header) {
    apart([...header.children].filter((el) => seen(el) && !el.matches(".skip")));
    apart([...(header.querySelector(".switches")?.children ?? [])].filter(seen));
    for (const el of header.querySelectorAll(":scope > *, .switches > *")) if (seen(el) && !el.matches(".skip") && el.getBoundingClientRect().right > innerWidth + 1) faults.push(`outside the window: ${short(el)}`);
    const here = header.querySelector("nav [aria-current]"), bar = here?.parentElement.getBoundingClientRect(), r = here?.getBoundingClientRect();
    if (r && (r.left < bar.left - 1 || r.right > bar.right + 1)) faults.push(`where one is, is out of sight: ${short(here)}`);
  }
  const box = open ?? document.querySelector("main");
  for (const el of all("td button, td a, .card button, .actions button", box)) {
    const r = el.getBoundingClientRect();
    if (r.width && (r.right > innerWidth + 1 || r.left < 0)) faults.push(`out of sight: ${short(el)}`);
  }
  return [...new Set(faults)];
}
