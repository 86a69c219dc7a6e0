//go:build !linux && !darwin

package server

import "errors"

// tellsAcked: the system does not know what a peer has acknowledged.
const tellsAcked = false

// outq would return how many bytes of a TCP socket the peer has not
// acknowledged. This system does not say.
func outq(int) (int, error) { return 0, errors.ErrUnsupported }

// boundUnsent would bound what the kernel takes and does not send.
func boundUnsent(int, int) error { return errors.ErrUnsupported }
