package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var files embed.FS

// Policy is the content security policy of every reply.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// asset is one file as it is sent.
type asset struct {
	kind   string // media type
	tag    string // ETag
	text   []byte
	packed []byte // by gzip
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// assets are the files by name, packed once when the first is asked for.
var assets = sync.OnceValue(func() map[string]*asset {
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		panic(err) // they are part of the program
	}
	all := make(map[string]*asset, len(entries))
	for _, entry := range entries {
		text, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		all[entry.Name()] = &asset{
			kind:   kinds[path.Ext(entry.Name())],
			tag:    `"` + hex.EncodeToString(sum[:12]) + `"`,
			text:   text,
			packed: pack(text),
		}
	}
	return all
})

func pack(text []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(text) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// Serve answers with the file of that name, the page itself for "". It returns
// false, and has written nothing, if there is none.
func Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	name = cmp.Or(name, "index.html")
	a := assets()[name]
	if a == nil {
		return false
	}
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// Asked for anew each time, so that a page never mixes files of two versions
	// of the server; the ETag makes that cheap.
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", a.tag)
	if strings.Contains(r.Header.Get("If-None-Match"), a.tag) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	h.Set("Content-Type", a.kind)
	body := a.text
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = a.packed
	}
	_, _ = w.Write(body)
	return true
}

// acceptsGzip reads Accept-Encoding as far as browsers use it.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(coding) == "gzip" {
			q := strings.ReplaceAll(weight, " ", "")
			return q != "q=0" && !strings.HasPrefix(q, "q=0.000")
		}
	}
	return false
}
