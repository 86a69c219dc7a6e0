package testnet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"allium/protocols/status"
)

// dirPrefix begins the name of a network's directory in the temporary directory.
const dirPrefix = "allium-testnet-"

// lockFile is locked while a network lives. The system releases the lock also when the
// process is killed.
const lockFile = "lock"

// lockDir locks a network's new directory. It waits for processes that only test the lock.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("testnet: %w", err), f.Close())
	}
	return f, nil
}

// Found is the directory of a network.
type Found struct {
	Dir   string `json:"dir"`
	Alive bool   `json:"alive"` // false when the process that ran it has ended
}

// List returns the networks of this user in the temporary directory, by name.
func List() ([]Found, error) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	var found []Found
	for _, dir := range dirs {
		f, err := look(dir)
		if err != nil {
			continue // the directory of another user, or removed meanwhile
		}
		found = append(found, f)
	}
	return found, nil
}

// look tests whether a process holds a directory's lock.
func look(dir string) (Found, error) {
	if !strings.HasPrefix(filepath.Base(dir), dirPrefix) { // other programs have files with that name too
		return Found{}, fmt.Errorf("its name does not begin with %s", dirPrefix)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return Found{}, err
	}
	defer f.Close()
	// A shared lock, so that two tests do not see each other, released at once.
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return Found{}, err
	}
	return Found{Dir: dir, Alive: err != nil}, nil
}

// Find returns the directory of a network that runs: dir, or the only one there
// is. An error lists what there is instead.
func Find(dir string) (string, error) {
	if dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		f, err := look(abs)
		switch {
		case err != nil:
			return "", status.Errorf(status.NotFound, "%s is not the directory of a testnet: %w%s", dir, err, listed())
		case !f.Alive:
			return "", status.Errorf(status.NotReady,
				"the network in %s is dead: the process that ran it is gone; `allium testnet down --net %s` removes "+
					"what it left",
				dir, dir)
		}
		return abs, nil
	}
	all, err := List()
	if err != nil {
		return "", err
	}
	alive := slices.DeleteFunc(slices.Clone(all), func(f Found) bool { return !f.Alive })
	switch len(alive) {
	case 1:
		return alive[0].Dir, nil
	case 0:
		return "", status.Errorf(status.NotReady,
			"no testnet is running; start one with `allium testnet up`%s", listed())
	}
	return "", status.Errorf(status.Conflict, "%d testnets are running; name one with --net%s", len(alive), listed())
}

// listed is the networks there are, as the end of an error.
func listed() string {
	all, err := List()
	if err != nil || len(all) == 0 {
		return ""
	}
	var b strings.Builder
	for _, f := range all {
		b.WriteString("\n  " + f.Dir)
		if !f.Alive {
			b.WriteString("  dead; `allium testnet down --net " + f.Dir + "` removes what it left")
		}
	}
	return b.String()
}
