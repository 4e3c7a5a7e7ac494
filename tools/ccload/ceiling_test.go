package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

func dialCeiling(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", ceilingAddr(t))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func readFrame(t *testing.T, c net.Conn) (protocol.Header, []byte) {
	t.Helper()
	head := make([]byte, protocol.HeaderSize)
	_, err := io.ReadFull(c, head)
	require.NoError(t, err)
	h, err := protocol.ParseHeader(head)
	require.NoError(t, err)
	body := make([]byte, h.BodyLen)
	_, err = io.ReadFull(c, body)
	require.NoError(t, err)
	return h, body
}

func TestCeilingEchoesTheSequence(t *testing.T) {
	c := dialCeiling(t)
	var burst []byte
	for seq := range uint16(300) {
		burst = protocol.AppendFrame(burst, protocol.GetConfig, 65_400+seq, []byte(`{"file_pattern":"x.json"}`))
	}
	_, err := c.Write(burst)
	require.NoError(t, err)
	for seq := range uint16(300) {
		h, body := readFrame(t, c)
		require.Equal(t, protocol.GetConfig.Reply(), h.Command)
		require.Equal(t, 65_400+seq, h.Seq)
		require.Len(t, body, replySize)
		require.NoError(t, replyError(h.Command, body))
	}
}

func TestCeilingTakesAFrameInPieces(t *testing.T) {
	c := dialCeiling(t)
	frame := protocol.AppendFrame(nil, protocol.GetConfig, 9, []byte(`{"file_pattern":"x.json"}`))
	// Unknown commands are not answered, and carry the pieces past the header.
	frame = append(protocol.AppendFrame(nil, 0x7777, 1, nil), frame...)
	for _, b := range frame {
		_, err := c.Write([]byte{b})
		require.NoError(t, err)
	}
	h, _ := readFrame(t, c)
	require.EqualValues(t, 9, h.Seq)
}

func TestCeilingTakesLargeBodies(t *testing.T) {
	c := dialCeiling(t)
	_, err := c.Write(protocol.AppendFrame(nil, protocol.SetConfig, 4, make([]byte, 2<<20)))
	require.NoError(t, err)
	h, _ := readFrame(t, c)
	require.EqualValues(t, 4, h.Seq)
}

func TestCeilingClosesOnAWrongHeader(t *testing.T) {
	c := dialCeiling(t)
	_, err := c.Write(make([]byte, 10))
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestCeilingTellsSubscribers(t *testing.T) {
	book := protocol.AppendFrame(nil, protocol.BookCfgChange, 1, []byte(`{"file_pattern":"push.json"}`))
	set := protocol.AppendFrame(nil, protocol.SetConfig, 2, []byte(`{"filename":"push.json","contents":{}}`))
	gone, stays, other, writer := dialCeiling(t), dialCeiling(t), dialCeiling(t), dialCeiling(t)
	for _, c := range []net.Conn{gone, stays} {
		_, err := c.Write(book)
		require.NoError(t, err)
		readFrame(t, c)
	}
	require.NoError(t, gone.Close())
	for range 2 {
		_, err := writer.Write(set)
		require.NoError(t, err)
		h, _ := readFrame(t, writer)
		require.Equal(t, protocol.SetConfig.Reply(), h.Command)
		h, body := readFrame(t, stays)
		require.Equal(t, protocol.EvNotify, h.Command)
		change, ok, err := protocol.ParseChange(body)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, pushName, change.File)
	}
	// One push for each change, and none to others.
	for _, c := range []net.Conn{stays, other} {
		_, err := c.Write(protocol.AppendFrame(nil, protocol.GetConfig, 3, nil))
		require.NoError(t, err)
		h, _ := readFrame(t, c)
		require.EqualValues(t, 3, h.Seq)
	}
}
