package gateway

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
	"confcenter/access/guard"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/storage/field"
	"confcenter/storage/storagejson"
)

// plainError is an error with Plum's status and text.
type plainError struct {
	status int
	text   string
}

func (e *plainError) Error() string { return e.text }

var errUnknownPath error = codes.Errorf(codes.NotFound, "there is nothing at this path")

func badMethod(method string) error {
	return codes.Errorf(codes.BadMethod, "the path does not take %.16q; see the header Allow", method)
}

func tooLarge(limit int64) error { return bodyLimit(&http.MaxBytesError{Limit: limit}) }

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

// fail answers with err in the route's form, and logs faults of the server, and what ends an answer that has begun.
func (g *Gateway) fail(w *reply, r *http.Request, rt *route, err error) {
	err = g.withRemedy(r, rt, err)
	code := codes.Of(err)
	g.noteRefusal(w, r, rt, err)
	err = w.Rights.Told(err)
	var plain *plainError
	cutOff := w.status != 0 && code != codes.Closed
	if !errors.As(err, &plain) && (code == codes.Internal || cutOff) && r.Context().Err() == nil {
		g.log.Error().Err(err).Str("method", r.Method).Str("route", rt.name).Msg("request failed")
	}
	answerError(w, rt, plain, err)
}

// noteRefusal has the audit know of a request that was refused for lack of a right or a proof, or by a quota.
func (g *Gateway) noteRefusal(w *reply, r *http.Request, rt *route, err error) {
	if g.cfg.Audit == nil {
		return
	}
	by := access.Actor{Origin: access.OverHTTP, Identity: w.Rights.Identity()}
	if p := peerOf(r); p != nil {
		by.Address = p.actor.Address
	}
	g.cfg.Audit.Refused(&by, rt.name, err)
}

// noteLogin has the audit know of a program that proves who it is with each of its requests, once for
// a connection: of those that are the same it makes a line when they begin, and then one from time to
// time. People who have signed in have had theirs.
func (g *Gateway) noteLogin(who *guard.Caller, r *http.Request) {
	p, id := peerOf(r), who.Identity()
	if p == nil || id == nil || p.socket.known == id.Name || g.cfg.Control != nil && g.cfg.Control.SessionOf(who) != nil {
		return
	}
	p.socket.known = id.Name
	by := access.Actor{Origin: access.OverHTTP, Address: p.actor.Address, Identity: id}
	g.cfg.Audit.Note(access.Event{Kind: access.EventLogin, By: &by, Do: "request", Often: true})
}

// answerError answers with err. If the reply has already begun, it aborts the
// connection, so that the peer does not take the reply for complete.
func answerError(w *reply, rt *route, plain *plainError, err error) {
	code, after := codes.Of(err), codes.RetryAfter(err)
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	if rt.plain {
		failPlain(w, plain, err)
		return
	}
	body := appendNumber(make([]byte, 0, 256), `{"code":`, int64(code))
	body = appendQuoted(body, `,"error":`, code.Name())
	body = appendQuoted(body, `,"detail":`, codes.Message(err))
	if mismatch := (*field.Mismatch)(nil); errors.As(err, &mismatch) {
		out := kvjson.Writer{Buf: body, Dialect: kvjson.HTTP}
		storagejson.WriteVersions(&out, mismatch.Fields)
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
func failPlain(w *reply, plain *plainError, err error) {
	if plain == nil {
		plain = &plainError{codes.Of(err).HTTPStatus(), codes.Message(err)}
		switch codes.Of(err) {
		case codes.BadMethod:
			plain.text = "method not allowed"
		case codes.NotFound:
			if !errors.Is(err, errUnknownPath) {
				break
			}
			plain.text = "404 page not found"
		case codes.Internal, codes.Storage, codes.Quota, codes.Busy, codes.Closed:
			if codes.RetryAfter(err) == 0 {
				plain.status, plain.text = http.StatusInternalServerError, "db error: "+plain.text
			}
		}
	}
	w.Header()["Content-Type"] = contentPlain
	w.setLength(len(plain.text) + len("\n"))
	w.WriteHeader(plain.status)
	_, _ = io.WriteString(w, plain.text+"\n")
}

// recovered answers in place of a handler that panicked.
func (g *Gateway) recovered(w *reply, r *http.Request, what any) {
	if what == http.ErrAbortHandler { //nolint:errorlint // it is this value, as net/http says
		panic(what)
	}
	g.traffic.panics.Add(1)
	g.log.Error().Str("panic", fmt.Sprint(what)).Str("method", r.Method).Str("route", w.route.name).Bytes("stack", debug.Stack()).Msg("a handler panicked")
	answerError(w, w.route, nil, codes.Internal)
}
