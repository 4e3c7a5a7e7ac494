package http

import (
	"cmp"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"

	"confcenter/codes"
)

// Limits of profiles of the processor, in seconds.
const (
	profileSeconds    = 30 // unless the request says otherwise
	maxProfileSeconds = 60
)

// profile sends what `go tool pprof` reads: a profile of the processor, or one of those that the
// Go runtime keeps.
func (g *Gateway) profile(w *reply, r *http.Request) error {
	name := r.PathValue("name")
	if name == "profile" {
		return g.profileProcessor(w, r)
	}
	kept := pprof.Lookup(name)
	if kept == nil {
		return codes.Errorf(codes.NotFound, "there is no profile %.40q; there are profile, allocs, block, goroutine, heap, mutex and threadcreate", name)
	}
	profileHead(w)
	return gone(kept.WriteTo(w, 0))
}

// profileProcessor sees for some time what the processor is used for. The runtime allows one at
// a time.
func (g *Gateway) profileProcessor(w *reply, r *http.Request) error {
	seconds, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("seconds"), strconv.Itoa(profileSeconds)))
	if err != nil || seconds < 1 || seconds > maxProfileSeconds {
		return codes.Errorf(codes.BadRequest, "seconds must be a whole number from 1 to %d", maxProfileSeconds)
	}
	profileHead(w) // before the runtime writes, in a goroutine of its own
	if err := pprof.StartCPUProfile(w); err != nil {
		w.Header().Del("Content-Disposition")
		return codes.Errorf(codes.Busy, "a profile is already being made; try again when it has ended")
	}
	defer pprof.StopCPUProfile()
	timer := g.clock.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-r.Context().Done(): // the peer has gone, or has lost its right
	case <-g.closing:
	}
	return nil
}

func profileHead(w *reply) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="profile.pb.gz"`)
	h["Cache-Control"] = noStore
}
