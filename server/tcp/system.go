package tcp

import "confcenter/codes"

// RunsOn fails, by name, on systems that a server does not run on; goos is as in runtime.GOOS.
// Clients and the command run on all that Go has.
func RunsOn(goos string) error {
	if goos == "linux" {
		return nil
	}
	return codes.Errorf(codes.Internal, "a server needs Linux, and this is %s: run it on Linux, for example in a container, and connect to it from here", goos)
}
