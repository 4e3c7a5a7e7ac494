package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/backup"
)

const (
	// maxBackups is how many backups are made at a time; each keeps disk space from being freed.
	maxBackups = 2
	// backupRoom is about what one takes in memory: a block, and what reads it.
	backupRoom = 2 << 20
	// backupPiece is what a peer has WriteTimeout to read.
	backupPiece = 64 << 10
)

// backup sends the whole state store as one file, at one revision. Its own last block tells the
// peer that it is complete.
func (g *Gateway) backup(w *reply, r *http.Request) error {
	from, able := g.stores.State.(kv.Copier)
	if !able {
		return codes.Errorf(codes.NotImplemented, "the state store cannot be backed up by this server")
	}
	select {
	case g.backups <- struct{}{}:
	default:
		return codes.Errorf(codes.Busy, "%d backups are already being made; try again when they have ended", maxBackups)
	}
	defer func() { <-g.backups }()
	g.cfg.Memory.Streams.Add(backupRoom)
	defer g.cfg.Memory.Streams.Give(backupRoom)
	copied, err := from.Copy(r.Context())
	if err != nil {
		return err
	}
	defer copied.Close()
	out := &backupWriter{gateway: g, w: w, control: http.NewResponseController(w), ctx: r.Context()}
	if err := out.control.SetReadDeadline(time.Time{}); err != nil { // the request's deadline must not end it
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="confcenter-%d.backup"`, copied.Revision()))
	h["Cache-Control"] = noStore
	totals, err := backup.Write(out, copied, g.cfg.Version)
	line := g.log.Info()
	if err != nil {
		line = g.log.Warn().Err(err)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			g.sse.Unread.Add(1)
		}
	}
	line.Str("address", r.RemoteAddr).Int64("revision", int64(copied.Revision())).Int64("bytes", totals.Bytes).Bool("complete", err == nil).Msg("backup")
	return err
}

// backupWriter gives the peer time to read each piece.
type backupWriter struct {
	gateway *Gateway
	w       io.Writer
	control *http.ResponseController
	ctx     context.Context // of the request
}

// Write implements io.Writer.
func (b *backupWriter) Write(block []byte) (n int, err error) {
	for n < len(block) {
		select {
		case <-b.gateway.closing:
			return n, codes.Errorf(codes.Closed, "the server is stopping")
		default:
		}
		if err := b.ctx.Err(); err != nil {
			return n, err
		}
		if err := b.control.SetWriteDeadline(time.Now().Add(b.gateway.cfg.WriteTimeout)); err != nil {
			return n, err
		}
		some, err := b.w.Write(block[n:min(n+backupPiece, len(block))])
		if n += some; err != nil {
			return n, err
		}
	}
	return n, nil
}
