package serving

import (
	"cmp"
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"confcenter/internal/admission"
	"confcenter/internal/memory"
	"confcenter/internal/settings"
)

// admissionOptions are the settings of what peers may do before they have said who they are,
// and of what one address may have, on TCP and HTTP together.
type admissionOptions struct {
	Unidentified int           `flag:"max-unidentified" doc:"TCP and HTTP connections that have not identified themselves; beyond that, the oldest silent one is closed; 0 = a sixteenth of the limit on open files, at most 4096"`
	PerAddress   int           `flag:"max-per-address" doc:"TCP and HTTP connections of one address, which in any case gets at most half of the places of each; further ones are refused; 0 = half of --max-connections"`
	Exempt       settings.List `flag:"exempt-networks" default:"127.0.0.0/8,::1/128" doc:"networks that --max-per-address and --rate-per-address do not apply to, separated by commas, for example 10.0.0.0/8"`
	Rate         rate          `flag:"rate" doc:"requests and bytes per second that one connection may send, TCP or HTTP, for example 1000/s,8MiB/s; what is more is refused with when to try again"`
	AddressRate  rate          `flag:"rate-per-address" doc:"the same for all connections of one address"`
}

func (o *admissionOptions) check(refuse func(format string, args ...any)) {
	if o.Unidentified < 0 {
		refuse("max-unidentified = %d: must not be negative", o.Unidentified)
	}
	if o.PerAddress < 0 {
		refuse("max-per-address = %d: must not be negative", o.PerAddress)
	}
	for _, text := range o.Exempt {
		if _, err := netip.ParsePrefix(text); err != nil {
			refuse("exempt-networks = %s: must be networks such as 10.0.0.0/8", text)
		}
	}
}

// room is how many unidentified connections there may be, given the limit on open files.
func (o *admissionOptions) room(files int) int {
	const share, enough = 16, 4096
	if o.Unidentified > 0 {
		return o.Unidentified
	}
	return min(files/share, enough)
}

// open makes the limiter of a server with so many places for clients.
func (o *admissionOptions) open(connections int, pool *memory.Pool) *admission.Limiter {
	limits := admission.Limits{
		Unidentified: o.Unidentified, PerAddress: cmp.Or(o.PerAddress, max(1, connections/2)),
		Memory: pool,
		Rate:   admission.Rate(o.Rate), AddressRate: admission.Rate(o.AddressRate),
	}
	for _, text := range o.Exempt {
		network, _ := netip.ParsePrefix(text) // check has seen it
		limits.Exempt = append(limits.Exempt, network)
	}
	return admission.New(limits)
}

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
