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
	for _, err := range []error{nil, codes.Conflict, errors.New("x"), denial, fmt.Errorf("in: %w", denial), codes.Forbidden, codes.NotIdentified} {
		notes.Refused(by, "KVGET", err)
	}
	lacks := access.Event{Kind: access.EventDenied, By: by, Do: "read", What: []string{"kv:a/b"}, Outcome: codes.Forbidden}
	require.Equal(t, []access.Event{
		lacks, lacks, {Kind: access.EventDenied, By: by, Do: "KVGET", Outcome: codes.Forbidden},
		{Kind: access.EventLogin, By: by, Do: "KVGET", Outcome: codes.NotIdentified},
	}, noted)
	access.Notes(nil).Refused(by, "KVGET", denial)
	access.Notes(nil).Note(lacks)
}
