//go:build !linux

package amnesia

import "errors"

var errNotLinux = errors.New("this node can do that on Linux only")

func noCoreDumps() {}

func lockProcess() error { return errNotLinux }

func filesOpenForWriting() ([]string, error) { return nil, errNotLinux }
