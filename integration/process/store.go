package process

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Store reads and writes a server's state store over HTTP.
type Store struct {
	t    testing.TB
	base string
}

// StoreOf is the store of a server that runs.
func StoreOf(t testing.TB, p *Process) Store { return Store{t, "http://" + p.HTTP} }

// Try asks a server; any goroutine may.
func (s Store) Try(method, path, body string) (int, string, error) {
	r, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(text), err
}

// Ask asks a server, which must answer.
func (s Store) Ask(method, path, body string) (int, string) {
	s.t.Helper()
	status, text, err := s.Try(method, path, body)
	require.NoError(s.t, err)
	return status, text
}

// Write is a PUT that must succeed; any goroutine may call it.
func (s Store) Write(path, body string) bool {
	status, text, err := s.Try(http.MethodPut, path, body)
	return assert.NoError(s.t, err) && assert.Equal(s.t, 200, status, text)
}

// Put sets a key of the namespace load.
func (s Store) Put(key, value string) bool {
	return s.Write("/v1/store/key?ns=load&key="+url.QueryEscape(key), fmt.Sprintf(`{"value":%q}`, value))
}

// SetDocument sets a whole document.
func (s Store) SetDocument(name, text string) bool {
	return s.Write("/v1/config/file?name="+name, text)
}

// KeyAt is a key of the namespace load as of a revision, as the server answers; 0: now.
func (s Store) KeyAt(key string, rev int64) string {
	s.t.Helper()
	path := "/v1/store/key?ns=load&key=" + url.QueryEscape(key)
	if rev > 0 {
		path += fmt.Sprintf("&revision=%d", rev)
	}
	status, text := s.Ask(http.MethodGet, path, "")
	if status == 404 {
		return "absent"
	}
	require.Equal(s.t, 200, status, text)
	return text
}

// Revision is the newest.
func (s Store) Revision() int64 {
	s.t.Helper()
	_, text := s.Ask(http.MethodGet, "/v1/status", "")
	var status struct{ Store struct{ Revision int64 } }
	require.NoError(s.t, json.Unmarshal([]byte(text), &status), text)
	return status.Store.Revision
}

// Document is the document in an answer of /v1/config/file.
func Document(t testing.TB, answer string) string {
	t.Helper()
	var file struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(answer), &file), answer)
	return file.Text
}
