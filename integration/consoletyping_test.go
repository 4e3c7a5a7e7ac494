//go:build soak

package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// holdWrites holds back the page's writes; the returned function releases them.
func (tb *tab) holdWrites() (release func()) {
	tb.t.Helper()
	eval[bool](tb, `(() => {
		const send = window.fetch;
		const held = [];
		window.fetch = (url, options) => options?.method === "PUT" ? new Promise((go) => held.push(() => go(send(url, options)))) : send(url, options);
		window.letGo = () => { window.fetch = send; held.forEach((go) => go()); return held.length; };
		return true;
	})()`)
	return func() {
		tb.t.Helper()
		require.Equal(tb.t, 1, eval[int](tb, `window.letGo()`))
	}
}

// Text typed while a save is in flight is neither discarded when the answer comes, nor
// taken for saved.
func TestConsoleKeepsWhatIsTypedWhileSaving(t *testing.T) {
	conf := confWith(t, map[string]string{"typed.json": "{}\n"})
	p := StartProcess(t, conf)
	tb := startBrowser(t).open(p, "configs/typed.json", view{})
	tb.run("configuration", func(t *testing.T) {
		tb.holds("#editor", "{}")
		tb.write("#editor", `{"n": 1}`)
		release := tb.holdWrites()
		tb.save()
		tb.until(`document.querySelector("#save").disabled`)
		tb.write("#editor", `{"n": 12}`)
		release()
		tb.until(`!document.querySelector("#save").disabled`)
		tb.holds("#editor", `{"n": 12}`)
		tb.misses("#changed-elsewhere")
		tb.save()
		tb.misses("#unsaved")
		text, err := os.ReadFile(filepath.Join(conf, "typed.json"))
		require.NoError(t, err)
		require.Equal(t, `{"n": 12}`, string(text))
	})

	other := secondClient(t, p)
	other.put("kinds", "typed", `{"type":"string","value":"first"}`)
	tb.load("store/kinds/typed")
	tb.run("key", func(t *testing.T) {
		tb.holds("#value", "first")
		tb.write("#value", "second")
		release := tb.holdWrites()
		tb.click("#save-key")
		tb.until(`document.querySelector("#save-key").disabled`)
		tb.write("#value", "second and more")
		release()
		tb.until(`!document.querySelector("#save-key").disabled`)
		tb.holds("#value", "second and more")
		other.hasKey("kinds", "typed", "string", "second")
		tb.click("#save-key")
		tb.saved()
		other.hasKey("kinds", "typed", "string", "second and more")

		tb.write("#value", "third")
		release = tb.holdWrites()
		tb.click("#save-key")
		tb.until(`document.querySelector("#save-key").disabled`)
		tb.choose("#ttl-mode", "after")
		tb.write("#ttl", "1h 30m")
		release()
		tb.click("#save-key")
		tb.saved()
		tb.sees("#keys .row .left", "1 h")
		other.hasKey("kinds", "typed", "string", "third")
	})
}
