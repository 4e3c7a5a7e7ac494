package http

import (
	"net/http"

	"confcenter/kv"
	"confcenter/server/edge"
	"confcenter/server/http/search"
)

const (
	maxHitFiles   = 200 // files in one reply
	maxBrokenRead = 50  // broken files that are read from disk
)

// beginSearch waits for its turn; done ends it.
func (g *Gateway) beginSearch(w *reply, r *http.Request, text string) (s *search.Search, done func(), err error) {
	name := ""
	if who := w.Rights.Identity(); who != nil {
		name = who.Name
	}
	if s, done, err = g.searchers.Begin(r.Context(), name, text); err != nil {
		return nil, nil, err
	}
	if err = w.judgeAnew(); err != nil {
		done()
	}
	return s, done, err
}

// The body of /v1/config/search.
type (
	foundBody struct {
		Files   []foundFile `json:"files"`
		More    bool        `json:"more"` // not everything was scanned or listed
		Scanned int         `json:"scanned_bytes"`
	}
	foundFile struct {
		Name  string `json:"name"`
		State string `json:"state"`
		search.Found
	}
)

// configSearch finds files whose name or own contents contain a text, in keys, in
// strings or in the text of other values.
func (g *Gateway) configSearch(w *reply, r *http.Request) error {
	p := parametersOf(r)
	text := p.needed("q")
	if err := p.end(); err != nil {
		return err
	}
	body := foundBody{Files: []foundFile{}}
	if text == "" {
		return w.sendStruct(&body)
	}
	s, done, err := g.beginSearch(w, r, text)
	if err != nil {
		return err
	}
	defer done()
	files := filesOf(g.stores.Config, g.stores.Config.Snapshot())
	read := 0
	for i := range files {
		file := &files[i]
		if file.state() == stateDeleted || !w.May().Names(file.name) {
			continue
		}
		if len(body.Files) == maxHitFiles || s.Spent() {
			body.More = true
			break
		}
		found := foundFile{Name: file.name, State: file.state(), Found: search.Found{Matches: []search.Hit{}}}
		if found.State == stateBroken {
			if read++; read > maxBrokenRead {
				body.More = true
			} else if text, _, err := g.stores.Config.Look(file.name, w.take); err == nil {
				s.Lines(&found.Found, text)
			}
		} else {
			text, _ := file.node.Contents(false)
			s.Document(&found.Found, text)
		}
		if len(found.Matches) > 0 || s.In([]byte(file.name)) {
			body.Files = append(body.Files, found)
		}
	}
	body.Scanned = s.Scanned
	return w.sendStruct(&body)
}

// findKeys is storeKeys for keys that contain a text or, with values, whose value does.
func (g *Gateway) findKeys(w *reply, r *http.Request, list kv.List, text string, values, withValues bool, reveal *edge.Revealer) error {
	s, done, err := g.beginSearch(w, r, text)
	if err != nil {
		return err
	}
	defer done()
	view := g.stores.State.View()
	defer view.Close()
	page, scanned, err := s.Keys(list, func(list kv.List) (kv.Page, error) { return w.Rights.Page(view, list) }, values, withValues)
	if err != nil {
		return err
	}
	page.Revision, page.Entries = view.Revision(), reveal.Entries(page.Entries)
	return w.sendPage(page, withValues, &scanned)
}
