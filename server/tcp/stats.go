package tcp

import "confcenter/internal/metric"

// Stats returns everything that the server counts and measures, under the names of
// /metrics. Any goroutine may call it.
func (s *Server) Stats() metric.Readings {
	connections, clients := s.gate.Registry.Counts()
	return append(s.group.Readings(),
		metric.Reading{Name: "server_connections", Help: "TCP connections that are open.", N: int64(connections)},
		metric.Reading{Name: "server_clients", Help: "TCP connections that have identified themselves.", N: int64(clients)},
	)
}
