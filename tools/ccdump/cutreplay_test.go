package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

// A capture that was stopped while a client waited for an answer replays without
// differences: what comes after its end is none.
func TestReplayOfCapturesThatStopAnywhere(t *testing.T) {
	for _, one := range recorded {
		list := packets(t, one.file)
		for n := 4; n <= len(list); n += 13 {
			srv := fresh(t)
			s := ccdump(t, "replay", fileOf(t, list[:n]), "--to", srv.Addr().String())
			require.Zero(t, s.code, "%s, %d packets: %s%s", one.name, n, s.out, s.status)
		}
	}
}

// A reply whose packet the capture has lost is no difference either.
func TestReplayOfCaptureThatLacksAReply(t *testing.T) {
	list := packets(t, "state.pcapng")
	lost := 0
	for i := range list {
		s, err := capture.NewDecoder().Decode(&list[i])
		require.NoError(t, err)
		if len(s.Payload) > protocol.HeaderSize && protocol.Command(binary.BigEndian.Uint16(s.Payload[6:])) == protocol.KVGet.Reply() {
			lost = i
			break
		}
	}
	require.NotZero(t, lost)
	srv := fresh(t)
	s := ccdump(t, "replay", fileOf(t, append(list[:lost:lost], list[lost+1:]...)), "--to", srv.Addr().String())
	require.Zero(t, s.code, s.out+s.status)
	require.Contains(t, s.out, " 0 different")
}
