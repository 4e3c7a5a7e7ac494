//go:build !linux

package netio

import "net"

var tcp = net.ListenConfig{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: tcpKeepIdle, Interval: tcpKeepInterval, Count: tcpKeepCount},
}
