package protocol

import (
	"confcenter/kv/kvjson"
	"confcenter/storage/storagejson"
)

// LandingRescan is STRESCAN's request.
type LandingRescan struct {
	App, Region string
	Version     int64 // the greatest one that others have written; 0: none
}

// LandingRescan reads STRESCAN's request.
func (r *Request) LandingRescan() (LandingRescan, error) {
	return readRequest(r, func(m *reader) LandingRescan {
		o := storagejson.ReadOwner(&m.Reader, &m.Top)
		return LandingRescan{App: o.App, Region: o.Region, Version: m.Count(&m.Top, kvjson.Version)}
	})
}

// AppendLandingRescan appends STRESCAN's request.
func AppendLandingRescan(dst []byte, q LandingRescan) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	storagejson.WritePlace(&w, q.App, q.Region)
	w.Given(kvjson.Version, q.Version)
	return w.End()
}
