//go:build !linux

package p2p

import "net"

// grownUDPBuffer knows nothing outside Linux, where the limit is most often low.
func grownUDPBuffer(*net.UDPConn) (int, bool) { return 0, false }
