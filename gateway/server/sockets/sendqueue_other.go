//go:build !linux && !darwin

package sockets

import "errors"

// ReportsAcked says that this system does not report what a peer has acknowledged.
const ReportsAcked = false

// Unacked returns ErrUnsupported, because this system does not report it.
func Unacked(int) (int, error) { return 0, errors.ErrUnsupported }

// BoundUnsent returns ErrUnsupported.
func BoundUnsent(int, int) error { return errors.ErrUnsupported }
