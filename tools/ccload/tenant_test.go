package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTenantReportsWhatBecameOfItsRequests(t *testing.T) {
	want := tenantReport{answered: 12, refused: 3, seconds: 1.5}
	got, err := parseTenant("connected\n" + tenantBegun + "\n" + want.String() + "\n")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = parseTenant(tenantBegun + "\nconnection lost\n")
	require.Error(t, err)
}

// A tenant takes refusals as answers, and nothing else.
func TestTenantTakesRefusalsOverHTTPAsAnswers(t *testing.T) {
	refused := "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 12\r\n\r\n{\"code\":503}"
	for _, tt := range []struct {
		text     string
		answered int
		failed   int64
		fails    bool
	}{
		{text: refused, answered: 1, failed: 1},
		{text: refused + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + refused[:40], answered: 2, failed: 1},
		{text: "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", fails: true},
	} {
		d := &load{src: &tape{}, tally: newTally()}
		c := &conn{to: d, pipeline: pipeline{inflight: 2}}
		_, err := (&httpReplies{size: -1, refusals: true}).frames(c, []byte(tt.text), 0)
		require.Equal(t, tt.fails, err != nil)
		require.Equal(t, tt.answered, c.answered)
		require.Equal(t, tt.failed, d.tally.failed)
	}
	_, err := (&httpReplies{size: -1}).frames(&conn{pipeline: pipeline{inflight: 1}}, []byte(refused), 0)
	require.Error(t, err, "others do not")
}
