package capture

import (
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
)

// Writer writes records of one link type to a file.
type Writer struct{ ng *pcapgo.NgWriter }

// NewWriter writes pcapng, in nanoseconds.
func NewWriter(w io.Writer, link Link) (*Writer, error) {
	ng, err := pcapgo.NewNgWriterInterface(w, pcapgo.NgInterface{Name: "ccdump", LinkType: link, TimestampResolution: 9},
		pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "ccdump"}})
	return &Writer{ng}, err
}

// Write appends a record.
func (w *Writer) Write(rec *Record) error {
	return w.ng.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(0, rec.At).UTC(), CaptureLength: len(rec.Data), Length: rec.Length}, rec.Data)
}

// Flush writes out what is still buffered.
func (w *Writer) Flush() error { return w.ng.Flush() }
