//go:build !linux && !darwin

package server

import "errors"

// reportsAcked: this system does not report what a peer has acknowledged.
const reportsAcked = false

// outq returns ErrUnsupported, because this system does not report it.
func outq(int) (int, error) { return 0, errors.ErrUnsupported }

// boundUnsent returns ErrUnsupported.
func boundUnsent(int, int) error { return errors.ErrUnsupported }
