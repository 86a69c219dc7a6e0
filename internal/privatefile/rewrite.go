package privatefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"allium/protocols/status"
)

// Rewrite replaces the content of a file that a person may edit too: was is what the caller
// has read, p is the new content. Mode and owner stay as they are. It returns once the content
// is durable; after a crash the file has the old or the new content. If name is a link, the
// file that it leads to is replaced, and the link stays.
//
// If the content is not was any more, nothing is written and the error is conflict. A file that
// is no regular one is bad_request; one that nobody may write, or whose owner cannot be kept,
// is forbidden. Calls of all processes for one directory wait for each other (see [Locked]).
func Rewrite(ctx context.Context, name string, was, p []byte) error {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	return Locked(ctx, filepath.Dir(target), func() error {
		info, err := os.Stat(target)
		if err != nil {
			return err
		}
		if err := rewritable(target, info); err != nil {
			return err
		}
		own := func(f *os.File) error { return sameOwner(f, info) }
		err = write(target, p, own, func(tmp string) error {
			now, err := os.ReadFile(target)
			if err != nil {
				return err
			}
			if !bytes.Equal(now, was) {
				return status.Errorf(status.Conflict, "%s was changed by another program meanwhile, and nothing was "+
					"written; run the command again", name)
			}
			return os.Rename(tmp, target)
		})
		switch {
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
			return status.Errorf(status.Forbidden,
				"cannot replace %s: %w; run the command as the user who owns it and its "+
					"directory", name, err)
		case err != nil:
			return fmt.Errorf("rewrite %s: %w", name, err)
		}
		return nil
	})
}

// rewritable returns an error if a file is not one that Rewrite replaces. The mode counts for
// root too: who took away the permission to write meant it.
func rewritable(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return status.Errorf(status.BadRequest, "%s is not a regular file; name one with --config", name)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	}
	if err == nil && info.Mode().Perm()&0o222 != 0 {
		return nil
	}
	return status.Errorf(status.Forbidden, "%s is read-only (mode %04o) for you; run chmod u+w %s, or edit what it is "+
		"made from", name, info.Mode().Perm(), name)
}

// sameOwner gives f the owner, the group and the mode of info.
func sameOwner(f *os.File, info fs.FileInfo) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	want, ok := info.Sys().(*syscall.Stat_t)
	have, known := mine.Sys().(*syscall.Stat_t)
	if ok && known && (want.Uid != have.Uid || want.Gid != have.Gid) {
		if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(info.Mode().Perm())
}
