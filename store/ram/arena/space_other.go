//go:build !linux

package arena

import "errors"

// space is allocated on the Go heap, one region at a time.
type space struct{}

var errNotLinux = errors.New("memory is locked on Linux only")

func reserve(int64) (space, error) { return space{}, nil }

func (space) lockError() error { return errNotLinux }

func (space) region(_ int64, n int) []byte { return make([]byte, n) }

func (space) drop([]byte) {}

func (space) close() {}
