package serving

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"confcenter/internal/admission"
	"confcenter/internal/settings"
)

// rate is a flag for requests and bytes per second, of which either may be missing.
type rate admission.Rate

var _ pflag.Value = (*rate)(nil)

const noRate = "off"

var errRate = errors.New("must be requests or bytes per second, or both, like 1000/s, 8MiB/s or 1000/s,8MiB/s, or " + noRate)

// Set takes text like 1000/s,8MiB/s: a number with a unit is bytes.
func (r *rate) Set(text string) error {
	var parsed rate
	if text != noRate {
		for _, part := range strings.Split(text, ",") {
			amount, ok := strings.CutSuffix(strings.TrimSpace(part), "/s")
			if !ok || !parsed.setOne(amount) {
				return errRate
			}
		}
	}
	*r = parsed
	return nil
}

// setOne returns false if that is no amount, or its kind is set already.
func (r *rate) setOne(amount string) bool {
	if n, err := strconv.ParseInt(amount, 10, 64); err == nil {
		ok := n > 0 && r.Requests == 0
		r.Requests = n
		return ok
	}
	var size settings.Bytes
	if size.Set(amount) != nil || size <= 0 || r.Bytes != 0 {
		return false
	}
	r.Bytes = int64(size)
	return true
}

// String is the text that Set takes.
func (r *rate) String() string {
	var parts []string
	if r.Requests > 0 {
		parts = append(parts, strconv.FormatInt(r.Requests, 10)+"/s")
	}
	if size := settings.Bytes(r.Bytes); size > 0 {
		text := size.String()
		if !strings.HasSuffix(text, "B") {
			text += "B"
		}
		parts = append(parts, text+"/s")
	}
	if len(parts) == 0 {
		return noRate
	}
	return strings.Join(parts, ",")
}

// Type is how help shows the flag's argument.
func (r *rate) Type() string { return "rate" }
