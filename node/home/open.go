package home

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"allium/internal/privatefile"
	"allium/node/config"
	"allium/protocols/status"
)

// ErrNone is wrapped by the error of [Check] for a directory that is no home directory.
var ErrNone = errors.New("no home directory")

// marks are typical files of a home directory. Each home directory has at least one of them.
var marks = []string{config.FileName, KeyFile, "capability.keys", "petnames", "store/FORMAT"}

// Check returns nil if dir is a home directory that this user may use. If there is no home
// directory at dir, the error is status.NotFound and wraps [ErrNone]. The other errors are
// those of [CheckOwner].
func Check(dir string) error {
	if err := CheckOwner(dir); err != nil {
		return err
	}
	for _, name := range marks {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrPermission) {
			return status.Errorf(status.Forbidden,
				"this user may not open the home directory %s; run the command as the user "+
					"who owns it, or name another one with --home", dir)
		} else if err == nil {
			return nil
		}
	}
	return &status.Error{Outcome: status.NotFound, Err: ErrNone, Message: "no allium home at " + dir +
		"; check the name, or make one there with `allium init`"}
}

// CheckOwner returns status.Forbidden if the home directory dir belongs to another user. Files
// that this user would write there, its owner's node could not open. The home belongs to the
// owner of its identity. Without an identity it belongs to the owner of the directory, but any
// user except root may use a directory of another: the system decides what that user can write.
//
// A directory that does not exist belongs to nobody.
func CheckOwner(dir string) error {
	me := os.Geteuid()
	for _, name := range []string{filepath.Join(dir, KeyFile), dir} {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		uid, known := privatefile.Owner(info)
		if !known || uid == me || name == dir && me != 0 {
			return nil
		}
		name, account := userOf(uid)
		return status.Errorf(status.Forbidden, "the home directory %s belongs to %s; run the command as that user "+
			"(sudo -u %s allium --home %s …), or name another one with --home", dir, name, account, dir)
	}
	return nil
}

// CheckNew is [CheckOwner] for a home directory that is about to be made. If root would make it in a directory
// of another user, the error is status.Forbidden: that user's node could not open it. A directory that all may
// write to, such as /tmp, is no user's.
func CheckNew(dir string) error {
	if err := CheckOwner(dir); err != nil || os.Geteuid() != 0 {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil // CheckOwner has looked at it
	}
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o002 != 0 {
			return nil
		}
		if uid, known := privatefile.Owner(info); known && uid != 0 {
			name, account := userOf(uid)
			return status.Errorf(status.Forbidden,
				"the directory %s belongs to %s, whose node could not use a home directory "+
					"that root makes there; run the command as that user (sudo -u %s allium --home %s …), or name "+
					"another place with --home", up, name, account, dir)
		}
		return nil
	}
}

// userOf returns how a user is called in a message, and how sudo -u names that user in a shell.
func userOf(uid int) (name, account string) {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return "the user " + u.Username, u.Username
	}
	return "user " + id, "'#" + id + "'"
}
