package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
)

// The tests of the console drive a real browser against the real program. They do not
// run in parallel with other tests, because some depend on time.

// browser is the running Chromium, as one test has it.
type browser struct {
	t       *testing.T
	ctx     context.Context
	killed  atomic.Bool // a server was, and requests to it may fail
	refused atomic.Bool // the user may not do everything
}

// startBrowser runs Debian's chromium, unless another test has begun to: it is the same one for
// all, whose pages know nothing of each other, and ends with the last test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	chromium.begin.Do(startChromium)
	require.NoError(t, chromium.err, "chromium is among the Makefile's PROGRAMS")
	return &browser{t: t, ctx: chromium.ctx}
}

// chromium is the process.
var chromium struct {
	begin sync.Once
	ctx   context.Context
	err   error
	end   func() error // nil: it was never begun
}

func startChromium() {
	dir, err := os.MkdirTemp("", "confcenter-browser-")
	if err != nil {
		chromium.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"),
		chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Env("TMPDIR="+dir),
		chromedp.WSURLReadTimeout(time.Minute), // for a first start from a slow disk
		chromedp.NoFirstRun, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
	)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeFirst := chromedp.NewContext(ctx)
	chromium.ctx, chromium.err = ctx, chromedp.Do(ctx, chromedp.Navigate("about:blank"))
	chromium.end = func() error {
		if chromium.err == nil { // or both would wait for ever for what has not begun
			_ = chromedp.Cancel(ctx) // waits for the end of the process
			closeFirst()
		}
		stop()
		late := time.After(servertest.Patience)
		for { // helpers of the browser outlive it by a moment, in which they write
			err := os.RemoveAll(dir)
			if err == nil {
				return nil
			}
			select {
			case <-late:
				return err
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// tab is a page with storage of its own, like another person's.
type tab struct {
	*browser
	t    *testing.T
	ctx  context.Context
	base string
	size [2]int64

	mu     sync.Mutex
	faults []string // guarded by mu: what the page has complained about
}

// view is how a tab is displayed.
type view struct {
	width, height int64  // 1400 by 900
	language      string // of the browser, en
	dark          bool
}

// open opens a page of the console. Whatever the page complains about fails the test:
// exceptions, violations of the content security policy, resources that do not load.
func (b *browser) open(p *Process, path string, v view) *tab {
	b.t.Helper()
	if v.width == 0 {
		v.width, v.height = 1400, 900
	}
	if v.language == "" {
		v.language = "en"
	}
	ctx, closeTab := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	tb := &tab{browser: b, t: b.t, ctx: ctx, base: "http://" + p.HTTP + "/console/", size: [2]int64{v.width, v.height}}
	var reading sync.WaitGroup
	b.t.Cleanup(func() {
		closeTab()
		reading.Wait()
		tb.mu.Lock()
		defer tb.mu.Unlock()
		require.Empty(b.t, tb.faults)
	})
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	// The tab lives as long as the context of the first action.
	require.NoError(b.t, chromedp.Do(ctx, chromedp.EmulateViewport(v.width, v.height)))
	messages := chromedp.Console(ctx)
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			tb.complaint(m)
		}
	})
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(b.t, err)
	_, err = chromedp.Call(ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "confcenter-test", AcceptLanguage: v.language})
	require.NoError(b.t, err)
	_, err = chromedp.Call(ctx, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true})
	require.NoError(b.t, err)
	_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.toasts = [];
		new MutationObserver(changes => changes.forEach(change => change.addedNodes.forEach(node => {
			if (node.classList?.contains("toast")) window.toasts.push(node.textContent);
		}))).observe(document, {childList: true, subtree: true});`})
	require.NoError(b.t, err)
	tb.load(path)
	return tb
}

// run runs a part of a test, which builds on the parts before it.
func (tb *tab) run(name string, fn func(t *testing.T)) {
	whole := tb.t
	if !whole.Run(name, func(t *testing.T) {
		tb.t = t
		defer func() { tb.t = whole }()
		fn(t)
	}) {
		whole.FailNow()
	}
}

// complaint records a fault. Browsers also complain about each refused request, but a
// missing thing or a conflict is no fault, nor is a server that has no room for a large
// answer while it sends others.
func (tb *tab) complaint(m chromedp.ConsoleMessage) {
	if m.Type != chromedp.ConsoleError && m.Type != chromedp.ConsoleWarning && !m.IsException() {
		return
	}
	for _, expected := range []string{"status of 404", "status of 412", "status of 503", "ERR_INCOMPLETE_CHUNKED_ENCODING"} {
		if strings.Contains(m.Text, expected) {
			return
		}
	}
	if tb.refused.Load() && (strings.Contains(m.Text, "status of 401") || strings.Contains(m.Text, "status of 403") || strings.Contains(m.Text, "CORS policy") || strings.Contains(m.Text, "net::ERR_FAILED")) {
		return
	}
	if tb.killed.Load() && strings.Contains(m.Text, "net::ERR_") {
		return
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.faults = append(tb.faults, fmt.Sprintf("%s (%s:%d)", m, m.URL, m.Line))
}

// kill kills a server that pages of this browser are open on.
func (b *browser) kill(p *Process) {
	b.killed.Store(true)
	p.Kill()
}

// load reloads a page of the console.
func (tb *tab) load(path string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate("about:blank"), chromedp.Navigate(tb.base+"#/"+path), chromedp.WaitVisible(chromedp.CSS("html[data-ready]")))
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, servertest.Patience)
	defer cancel()
	require.NoError(tb.t, chromedp.Do(ctx, steps...), "the page shows: %s", tb.whole())
}

// whole is the text of the page, for messages.
func (tb *tab) whole() string {
	ctx, cancel := context.WithTimeout(tb.ctx, servertest.Patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.hash + " " + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// eval returns the value of an expression in the page, or of the promise that it is.
func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, servertest.Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(tb.t, err, expression)
	return v
}

// until waits for an expression to be true.
func (tb *tab) until(expression string, args ...any) {
	tb.t.Helper()
	if len(args) > 0 {
		expression = fmt.Sprintf(expression, args...)
	}
	awaited[bool](tb, "Boolean("+expression+")")
}

// awaited is what an expression is as soon as it is true.
func awaited[T any](tb *tab, expression string) T {
	tb.t.Helper()
	v, err := chromedp.Run(tb.ctx, chromedp.Poll[T](expression, chromedp.WithPollingTimeout(servertest.Patience)))
	if err != nil {
		require.NoError(tb.t, err, "%s\nthe page shows: %s", expression, tb.whole())
	}
	return v
}

// told waits for a message, which may be gone again.
func (tb *tab) told(text string) {
	tb.t.Helper()
	tb.until(`window.toasts.some(one => one.includes(%s))`, quote(text))
}

// sees waits until the element shows text.
func (tb *tab) sees(css, text string) {
	tb.t.Helper()
	tb.until(`[...document.querySelectorAll(%q)].some(el => el.textContent.includes(%s))`, css, quote(text))
}

// misses waits until the element is gone.
func (tb *tab) misses(css string) {
	tb.t.Helper()
	tb.until(`!document.querySelector(%q)`, css)
}

// click clicks in the middle of an element that is visible and enabled.
func (tb *tab) click(css string) {
	tb.t.Helper()
	tb.press(fmt.Sprintf(`document.querySelector(%q)`, css), middle)
}

// save saves what is in the editor, without a word about why.
func (tb *tab) save() {
	tb.t.Helper()
	tb.click("#save")
	tb.click("#review-save")
}

// pick clicks the row of a list that shows text.
func (tb *tab) pick(list, text string) {
	tb.t.Helper()
	tb.press(rowOf(list, text), rowPlace)
}

// rowOf finds the row of a list that shows text.
func rowOf(list, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#%s .row")].find(el => [el, ...el.querySelectorAll("*")].some(e => e.textContent.trim() === %s))`, list, quote(text))
}

const (
	rowPlace = `[r.left + 40, r.top + r.height / 2]`
	middle   = `[r.left + r.width / 2, r.top + r.height / 2]`
)

// press clicks on an element as soon as it exists, at a place in its rectangle r.
func (tb *tab) press(find, place string) {
	tb.t.Helper()
	tb.hold(find, place)()
}

// aim waits until an element has stayed where it is for a frame and nothing covers it, and
// returns where a place in its rectangle r is. From then on window.aimed tells what comes of
// the next press: what was drawn anew or has moved since is missed, and hears nothing of it.
const aim = `(el => {
	if (!el || el.disabled || !el.getBoundingClientRect().width) return null;
	el.scrollIntoView({block: "nearest"});
	const r = el.getBoundingClientRect(), [x, y] = %s, was = window.aimed;
	window.aimed = {el, x, y, at: ""};
	if (was?.el !== el || was.x !== x || was.y !== y || !el.contains(document.elementFromPoint(x, y))) return null;
	for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) {
		addEventListener(type, (event) => {
			const hit = el.contains(event.target);
			if (type === "pointerdown") window.aimed.at = hit ? "pressed" : "missed";
			if (type === "click" && hit && window.aimed.at === "pressed") window.aimed.at = "clicked";
			if (window.aimed.at !== "missed") return;
			event.preventDefault();
			event.stopImmediatePropagation();
		}, {capture: true, once: true});
	}
	return [x, y];
})(%s)`

// hold presses on an element, again if it was missed; release makes a click of it.
func (tb *tab) hold(find, place string) (release func()) {
	tb.t.Helper()
	for {
		at := awaited[[]float64](tb, fmt.Sprintf(aim, place, find))
		mouse := func(what input.DispatchMouseEventType) string {
			tb.t.Helper()
			tb.do(chromedp.MouseEvent(what, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
			return eval[string](tb, `window.aimed.at`)
		}
		if mouse(chromedp.MousePressed) == "pressed" {
			return func() {
				tb.t.Helper()
				require.Equal(tb.t, "clicked", mouse(chromedp.MouseReleased), "the click was lost: %s", find)
			}
		}
		mouse(chromedp.MouseReleased)
	}
}

// write replaces the text of a field, as if typed at once.
func (tb *tab) write(css, text string) {
	tb.t.Helper()
	tb.until(`((el, text) => {
		if (!el || el.readOnly || el.disabled) return false;
		el.focus();
		el.select();
		document.execCommand(text ? "insertText" : "delete", false, text);
		return el.value === text;
	})(document.querySelector(%q), %s)`, css, quote(text))
}

// choose sets a select element.
func (tb *tab) choose(css, value string) {
	tb.t.Helper()
	tb.until(`(el => {
		if (!el) return false;
		el.value = %q;
		return el.dispatchEvent(new Event("change", {bubbles: true}));
	})(document.querySelector(%q))`, value, css)
}

// key presses keys where the focus is.
func (tb *tab) key(keys string, modifiers ...chromedp.Modifier) {
	tb.t.Helper()
	if len(modifiers) > 0 {
		tb.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
		return
	}
	tb.do(chromedp.KeyEvent(keys))
}

// value is the text of a field that can be written to.
func (tb *tab) value(css string) string {
	tb.t.Helper()
	return awaited[[]string](tb, fmt.Sprintf(`(el => el && !el.readOnly && [el.value])(document.querySelector(%q))`, css))[0]
}

// holds waits until a field holds text, ignoring blanks.
func (tb *tab) holds(css, text string) {
	tb.t.Helper()
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	tb.until(`document.querySelector(%q)?.value.replace(/\s/g, "") === %s`, css, quote(squeeze(text)))
}

// rows returns the texts of the rows that a list has now.
func (tb *tab) rows(list string) []string {
	tb.t.Helper()
	return eval[[]string](tb, fmt.Sprintf(`[...document.querySelectorAll("#%s .row")].map(el => el.innerText)`, list))
}

// fits requires that nothing makes the page wider than the window.
func (tb *tab) fits() {
	tb.t.Helper()
	wide := eval[[]string](tb, `[...document.querySelectorAll("body *")].filter(el => {
		const r = el.getBoundingClientRect();
		if (!r.width || r.right <= innerWidth + 1) return false;
		for (let up = el.parentElement; up; up = up.parentElement) if (getComputedStyle(up).overflowX !== "visible" && up.getBoundingClientRect().right <= innerWidth + 1) return false;
		return true;
	}).map(el => el.tagName + "." + el.className + " " + Math.round(el.getBoundingClientRect().right))`)
	require.Empty(tb.t, wide, "wider than %d", tb.size[0])
	require.LessOrEqual(tb.t, eval[int64](tb, `document.documentElement.scrollWidth`), tb.size[0])
}

// second is another client, which uses our REST.
type second struct {
	t    *testing.T
	base string
}

func secondClient(t *testing.T, p *Process) second { return second{t, "http://" + p.HTTP + "/v1/"} }

// ask sends a request that must be accepted and returns the decoded reply.
func (s second) ask(method, path string, query url.Values, body string) map[string]any {
	s.t.Helper()
	r, err := http.NewRequest(method, s.base+path+"?"+query.Encode(), strings.NewReader(body))
	require.NoError(s.t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	reply, err := transport.RoundTrip(r)
	require.NoError(s.t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(s.t, err)
	require.Less(s.t, reply.StatusCode, 300, "%s", text)
	var answer map[string]any
	require.NoError(s.t, json.Unmarshal(text, &answer), "%s", text)
	return answer
}

func (s second) put(ns, key, body string) map[string]any {
	s.t.Helper()
	return s.ask(http.MethodPut, "store/key", url.Values{"ns": {ns}, "key": {key}}, body)
}

func (s second) get(ns, key string) map[string]any {
	s.t.Helper()
	return s.ask(http.MethodGet, "store/key", url.Values{"ns": {ns}, "key": {key}}, "")
}

// fill writes keys with a number each, in batches.
func (s second) fill(ns, format string, n int) {
	s.t.Helper()
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"key":%s,"type":"int","value":"%d"}`, quote(fmt.Sprintf(format, i)), i))
	}
	for part := range slices.Chunk(items, 4096) {
		s.ask(http.MethodPost, "store/batch", url.Values{"ns": {ns}}, `{"items":[`+strings.Join(part, ",")+`]}`)
	}
}

// frames starts to measure how long the page cannot paint.
func (tb *tab) frames() (longest func() time.Duration) {
	tb.t.Helper()
	eval[chromedp.Void](tb, `(() => { let last = performance.now(); window.longest = 0; const turn = () => { const now = performance.now(); window.longest = Math.max(window.longest, now - last); last = now; requestAnimationFrame(turn); }; requestAnimationFrame(turn); })()`)
	return func() time.Duration {
		return time.Duration(eval[float64](tb, `window.longest`) * float64(time.Millisecond))
	}
}
