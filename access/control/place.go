package control

import (
	"net/netip"
	"slices"
	"strings"

	"confcenter/access/policy"
	"confcenter/codes"
)

// Place gives those who prove nothing a name by where they come from, for programs that know of
// no tokens. It is worth as much as the network is.
type Place struct {
	Listener string       // the name of the listener's setting; empty: any
	Network  netip.Prefix // of the peer; the zero Prefix: any
	Name     string       // with its kind: "listener:NAME"
}

// ParsePlace reads what a setting says: LISTENER=NAME, NETWORK=NAME or LISTENER@NETWORK=NAME,
// where NETWORK is an address or a prefix, such as 10.1.0.0/16, and LISTENER one of listeners.
// codes.BadRequest.
func ParsePlace(text string, listeners []string) (Place, error) {
	var p Place
	where, name, _ := strings.Cut(text, "=")
	p.Name = policy.ByListener + strings.TrimPrefix(name, policy.ByListener)
	if err := policy.CheckIdentity(p.Name); err != nil {
		return p, codes.Errorf(codes.BadRequest, "%q: write LISTENER=NAME, NETWORK=NAME or LISTENER@NETWORK=NAME", text)
	}
	listener, network, both := strings.Cut(where, "@")
	if !both && !slices.Contains(listeners, listener) {
		listener, network = "", where
	}
	if listener != "" || both {
		if p.Listener = listener; !slices.Contains(listeners, listener) {
			return p, codes.Errorf(codes.BadRequest, "%q: there is no listener %q; there are %s", text, listener, strings.Join(listeners, ", "))
		}
	}
	if network == "" && listener != "" && !both {
		return p, nil
	}
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		var address netip.Addr
		if address, err = netip.ParseAddr(network); err == nil {
			prefix, err = address.Prefix(address.BitLen())
		}
	}
	if err != nil {
		return p, codes.Errorf(codes.BadRequest, "%q: %q is no network, such as 10.1.0.0/16, and no listener; these are %s", text, network, strings.Join(listeners, ", "))
	}
	p.Network = prefix.Masked()
	return p, nil
}

// placeOf is the name of the first place that is right; empty: there is none.
func (c *Control) placeOf(proof *Proof) string {
	for _, p := range c.cfg.Places {
		if (p.Listener == "" || p.Listener == proof.Listener) && (!p.Network.IsValid() || p.Network.Contains(proof.Address.Unmap())) {
			return p.Name
		}
	}
	return ""
}
