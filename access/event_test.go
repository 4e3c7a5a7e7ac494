package access_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
)

func TestRefusalsAreNotedIfARightOrAProofIsMissing(t *testing.T) {
	var noted []access.Event
	notes := access.Notes(func(e access.Event) { noted = append(noted, e) })
	by := &access.Actor{Address: "10.0.0.1:5"}
	denial := &codes.Error{Code: codes.Forbidden, Err: &access.Denial{Do: "read", What: "kv:a/b"}}
	excess := fmt.Errorf("in: %w", &codes.Error{Code: codes.Busy, Err: &access.Excess{Do: "quota of requests", What: []string{"kv:a"}}})
	for _, err := range []error{nil, codes.Conflict, errors.New("x"), denial, fmt.Errorf("in: %w", denial), codes.Forbidden, codes.NotIdentified, excess} {
		notes.Refused(by, "KVGET", err)
	}
	lacks := access.Event{Kind: access.EventDenied, By: by, Do: "read", What: []string{"kv:a/b"}, Outcome: codes.Forbidden}
	require.Equal(t, []access.Event{
		lacks, lacks, {Kind: access.EventDenied, By: by, Do: "KVGET", Outcome: codes.Forbidden},
		{Kind: access.EventLogin, By: by, Do: "KVGET", Outcome: codes.NotIdentified},
		{Kind: access.EventRefused, By: by, Do: "quota of requests", What: []string{"kv:a"}, Outcome: codes.Busy},
	}, noted)
	access.Notes(nil).Refused(by, "KVGET", denial)
	access.Notes(nil).Note(lacks)
}

func TestNotingAFloodOfRefusalsAllocatesNothing(t *testing.T) {
	n := 0
	notes := access.Notes(func(e access.Event) { n += len(e.What) })
	by := &access.Actor{Address: "10.0.0.1:5"}
	refusal := error(&codes.Error{Code: codes.Busy, Err: &access.Excess{Do: "quota of requests", What: []string{"kv:a"}}})
	require.Zero(t, testing.AllocsPerRun(100, func() { notes.Refused(by, "KVGET", refusal) }))
	require.Positive(t, n)
}
