package http

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
	"confcenter/player/playerjson"
	"confcenter/server/http/plum"
)

var errUnknownPath error = codes.Errorf(codes.NotFound, "there is nothing at this path")

func bodyLimit(err *http.MaxBytesError) error {
	return &codes.Error{Code: codes.TooLarge, Text: fmt.Sprintf("the request body is longer than the limit of %d bytes", err.Limit), Err: err}
}

// staging is what a part of a change takes beside its text, with its name: more than any does.
const staging = 4 << 10

// withRemedy adds to the refusal of a body that is too long what takes such a one, if anything does.
// The body of a change of several files may be longer than each of them may, and a small --memory has
// less room for the parts of a change than a file may have.
func (g *Gateway) withRemedy(r *http.Request, rt *route, err error) error {
	var tooLong *http.MaxBytesError
	most := min(confstore.MaxFile, g.cfg.Memory.Staged.Limit()-staging)
	if !errors.As(err, &tooLong) || !strings.HasPrefix(rt.name, "config.") && !strings.HasPrefix(rt.name, "history.") ||
		rt.right == access.ConfigHistory || most <= tooLong.Limit { // it writes nothing, or apply takes no more
		return err
	}
	remedy := "`confcenter apply` takes larger files, up to %d bytes"
	if rt.name == "config.put" && r.ContentLength > most {
		remedy = "a file may have at most %d bytes"
	}
	return &codes.Error{Code: codes.TooLarge, Text: fmt.Sprintf("%s; "+remedy, codes.Message(err), most), Err: err}
}

// bodyError turns an error of reading a body into one with a code.
func bodyError(err error) error {
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return bodyLimit(tooLong)
	}
	if codes.Of(err) != codes.Internal {
		return err
	}
	return &codes.Error{Code: codes.BadRequest, Text: "the request body did not arrive", Err: err}
}

// fail refuses a request with err, in the route's form, and logs what ends an answer that has begun. Faults
// because the peer has gone are none.
func (g *Gateway) fail(w *reply, r *http.Request, rt *route, err error) {
	err = g.withRemedy(r, rt, err)
	code, left := codes.Of(err), r.Context().Err() != nil
	if code != codes.Internal || !left {
		w.Refused(w.by(r), rt.name, err)
	}
	if w.status != 0 && code != codes.Closed && code != codes.Internal && !left {
		g.log.Error().Err(err).Str("method", r.Method).Str("route", rt.name).Msg("request failed")
	}
	answerError(w, rt, w.Rights.Told(err))
}

// answerError answers with err. If the reply has already begun, it aborts the
// connection, so that the peer does not take the reply for complete.
func answerError(w *reply, rt *route, err error) {
	code, after := codes.Of(err), codes.RetryAfter(err)
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	if rt.plain {
		failPlain(w, err)
		return
	}
	body := appendNumber(make([]byte, 0, 256), `{"code":`, int64(code))
	body = appendQuoted(body, `,"error":`, code.Name())
	body = appendQuoted(body, `,"detail":`, codes.Message(err))
	if mismatch := (*field.Mismatch)(nil); errors.As(err, &mismatch) {
		out := kvjson.Writer{Buf: body, Dialect: kvjson.HTTP}
		playerjson.WriteVersions(&out, mismatch.Fields)
		body = out.Buf
	}
	if taken := (*kv.Taken)(nil); errors.As(err, &taken) {
		out := kvjson.Writer{Buf: body, Dialect: kvjson.HTTP}
		out.Entry(kvjson.Current, taken.Holder)
		body = out.Buf
	}
	if held := (*access.Held)(nil); errors.As(err, &held) {
		body = appendNumber(body, `,"held":`, held.Number)
	}
	if after > 0 {
		body = appendNumber(body, `,"retry_after":`, int64((after+time.Millisecond-1)/time.Millisecond))
	}
	body = append(body, "}\n"...)
	w.Header()["Content-Type"] = contentJSON
	w.setLength(len(body))
	w.WriteHeader(code.HTTPStatus())
	_, _ = w.Write(body)
}

// failPlain answers as Plum does, with a line of text. All failures of the store begin as Plum's one
// text for them does.
func failPlain(w *reply, err error) {
	refusal, code := (*plum.Error)(nil), codes.Of(err)
	switch {
	case errors.As(err, &refusal):
	case code == codes.BadMethod:
		refusal = errPlumMethod
	case errors.Is(err, errUnknownPath):
		refusal = errPlumNotFound
	default:
		refusal = &plum.Error{Status: code.HTTPStatus(), Text: codes.Message(err)}
		switch code {
		case codes.Internal, codes.Storage, codes.Quota, codes.Busy, codes.Closed:
			if codes.RetryAfter(err) == 0 {
				refusal.Status, refusal.Text = http.StatusInternalServerError, "db error: "+refusal.Text
			}
		}
	}
	w.Header()["Content-Type"] = contentPlain
	w.setLength(len(refusal.Text) + len("\n"))
	w.WriteHeader(refusal.Status)
	_, _ = io.WriteString(w, refusal.Text+"\n")
}

// recovered answers in place of a handler that panicked.
func (g *Gateway) recovered(w *reply, r *http.Request, what any) {
	if what == http.ErrAbortHandler { //nolint:errorlint // it is this value, as net/http says
		panic(what)
	}
	g.traffic.Panics.Add(1)
	g.log.Error().Str("panic", fmt.Sprint(what)).Str("method", r.Method).Str("route", w.route.name).Bytes("stack", debug.Stack()).Msg("a handler panicked")
	answerError(w, w.route, codes.Internal)
}
