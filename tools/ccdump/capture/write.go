package capture

import (
	"bufio"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
)

// Writer writes records of one link type to a file.
type Writer struct {
	write func(gopacket.CaptureInfo, []byte) error
	flush func() error
}

// NewWriter writes pcap, or pcapng if blocks is set, both in nanoseconds.
func NewWriter(w io.Writer, link Link, blocks bool) (*Writer, error) {
	if blocks {
		ng, err := pcapgo.NewNgWriterInterface(w, pcapgo.NgInterface{
			Name: "ccdump", LinkType: link, SnapLength: 0, TimestampResolution: 9,
		}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "ccdump"}})
		if err != nil {
			return nil, err
		}
		return &Writer{write: ng.WritePacket, flush: ng.Flush}, nil
	}
	out := bufio.NewWriter(w)
	old := pcapgo.NewWriterNanos(out)
	if err := old.WriteFileHeader(MaxPacket, link); err != nil {
		return nil, err
	}
	return &Writer{write: old.WritePacket, flush: out.Flush}, nil
}

// Write appends a record.
func (w *Writer) Write(rec *Record) error {
	return w.write(gopacket.CaptureInfo{Timestamp: time.Unix(0, rec.At).UTC(), CaptureLength: len(rec.Data), Length: rec.Length}, rec.Data)
}

// Flush writes out what is still buffered.
func (w *Writer) Flush() error { return w.flush() }
