// Before the first paint, so that a page of the other theme never flashes up.
// A classic script in the head: modules run only when the page is already there.
(function () {
  "use strict";
  try {
    var theme = localStorage.getItem("confcenter.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (e) {
    // Storage is forbidden: the system's theme it is.
  }
})();
