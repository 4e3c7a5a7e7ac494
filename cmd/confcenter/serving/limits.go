package serving

import (
	"cmp"
	"fmt"

	"github.com/rs/zerolog"

	"confcenter/internal/memory"
)

// reservedFiles is how many open files are kept for other things than connections
// with a place: files of the configuration being read, the state store's,
// the watcher, the loops, and connections on their way in or out.
const reservedFiles = 512

// Shares that HTTP and unidentified connections have of the memory for connections, in sixteenths, if the
// operator does not say how many there may be; TCP has the rest.
const (
	webShare          = 6
	unidentifiedShare = 2
)

// limitConnections decides how many connections there may be: as many as were asked for, else as
// the limit on open files and so much memory allow.
func (o *Options) limitConnections(files int, room int64, log zerolog.Logger) (err error) {
	share := func(sixteenths, cost int64) int { return int(room / 16 * sixteenths / cost) }
	tcpCost, webCost := int64(memory.TCPCost), int64(memory.HTTPCost)
	if o.tls.listen != "" {
		tcpCost += memory.TLSCost
	}
	if o.http.TLSListen != "" {
		webCost += memory.TLSCost
	}
	tcp, web, unidentified := o.tcp.MaxConnections, o.http.MaxConnections, o.admission.unidentified
	o.http.MaxConnections, o.admission.unidentified = o.http.connections(files), o.admission.room(files)
	if web == 0 {
		o.http.MaxConnections = min(o.http.MaxConnections, share(webShare, webCost))
	}
	if unidentified == 0 {
		o.admission.unidentified = min(o.admission.unidentified, share(unidentifiedShare, tcpCost))
	}
	o.tcp.MaxConnections, err = connectionLimit(tcp, files, reservedFiles+o.admission.unidentified+o.http.MaxConnections)
	if err != nil {
		return err
	}
	if tcp == 0 {
		o.tcp.MaxConnections = min(o.tcp.MaxConnections, share(16-webShare-unidentifiedShare, tcpCost))
	}
	if needed := int64(o.tcp.MaxConnections+o.admission.unidentified)*tcpCost + int64(o.http.MaxConnections)*webCost; needed > room {
		log.Warn().Msgf("the connections that may be open need %d bytes of memory, and the budget has %d for them: raise --memory, or lower --max-connections, --http-max-connections or --max-unidentified", needed, room)
	}
	return nil
}

// connectionLimit returns how many TCP connections the server may hold, given the
// number asked for (0: as many as possible), the limit on open files, and the files
// reserved for other things.
func connectionLimit(asked, files, reserved int) (int, error) {
	most := files - reserved
	if most < 1 {
		return 0, fmt.Errorf("the limit of %d open files leaves none for connections; raise it (ulimit -n) above %d", files, reserved)
	}
	if asked > most {
		return 0, fmt.Errorf("max-connections = %d: the limit of %d open files allows %d; raise it (ulimit -n) to %d or ask for fewer",
			asked, files, most, asked+reserved)
	}
	return cmp.Or(asked, most), nil
}

// connections is the limit on HTTP connections, which are open files too: the configured
// one, or else a share of all files, capped at more than anyone needs.
func (o *httpOptions) connections(files int) int {
	const share, enough = 4, 8192
	switch {
	case o.off():
		return 0
	case o.MaxConnections > 0:
		return o.MaxConnections
	}
	return min(files/share, enough)
}
