package integration

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is fetched over HTTP, lost and put back is the same to the byte.
func TestRawFileOverHTTPGoesThereAndBack(t *testing.T) {
	conf := t.TempDir()
	texts := map[string]string{
		"tabs.json": "{\n\t\"a\":\t1.50,\n\t\"b\": {}\n}\n",
		"crlf.json": "{\r\n  \"a\" : \"\\u914d置 😀\"\r\n}\r\n",
		"bare.json": `{ "b":1, "a":[ ] }`,
	}
	for name, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	p := StartProcess(t, conf)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, url string, body []byte, tag string) (text []byte, etag string) {
		t.Helper()
		r, err := http.NewRequest(method, url, bytes.NewReader(body))
		require.NoError(t, err)
		if tag != "" {
			r.Header.Set("If-Match", tag)
		}
		reply, err := client.Do(r)
		require.NoError(t, err)
		defer reply.Body.Close()
		text, err = io.ReadAll(reply.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, reply.StatusCode, "%s", text)
		require.Equal(t, "application/json", reply.Header.Get("Content-Type"))
		return text, reply.Header.Get("ETag")
	}
	for name, text := range texts {
		url := "http://" + p.HTTP + "/v1/config/file?raw&name=" + name
		got, tag := ask(http.MethodGet, url, nil, "")
		require.Equal(t, text, string(got))
		_, tag = ask(http.MethodPut, url, []byte(`{"lost":true}`), tag)
		ask(http.MethodPut, url, got, tag)
		onDisk, err := os.ReadFile(filepath.Join(conf, name))
		require.NoError(t, err)
		require.Equal(t, text, string(onDisk))
	}
}
