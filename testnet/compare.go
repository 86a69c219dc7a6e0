package testnet

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"allium/protocols/status"
)

// Compare walks two trees and returns how many entries they have, or an error
// that names the first difference in names, kinds, executable bits, link
// targets or bytes.
func Compare(a, b string) (entries int, err error) {
	err = filepath.WalkDir(a, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(a, name)
		if err != nil {
			return err
		}
		entries++
		return sameEntry(name, filepath.Join(b, rel))
	})
	if err != nil {
		return entries, err
	}
	extra := 0
	err = filepath.WalkDir(b, func(string, fs.DirEntry, error) error {
		extra++
		return nil
	})
	if err == nil && extra != entries {
		err = status.Errorf(status.Corrupt, "%s has %d entries, %s has %d", a, entries, b, extra)
	}
	return entries, err
}

func sameEntry(a, b string) error {
	ai, err := os.Lstat(a)
	if err != nil {
		return err
	}
	bi, err := os.Lstat(b)
	if err != nil {
		return err
	}
	const bits = fs.ModeType | 0o100
	am, bm := ai.Mode(), bi.Mode()
	switch {
	case am.Type() != bm.Type(), am.IsRegular() && am&bits != bm&bits:
		return status.Errorf(status.Corrupt, "%s is %s, %s is %s", a, am, b, bm)
	case am.Type() == fs.ModeSymlink:
		return sameLink(a, b)
	case !am.IsRegular():
		return nil
	}
	af, err := os.Open(a)
	if err != nil {
		return err
	}
	defer af.Close()
	bf, err := os.Open(b)
	if err != nil {
		return err
	}
	defer bf.Close()
	return sameBytes(a, af, bf)
}

func sameLink(a, b string) error {
	at, err := os.Readlink(a)
	if err != nil {
		return err
	}
	bt, err := os.Readlink(b)
	if err != nil {
		return err
	}
	if at != bt {
		return status.Errorf(status.Corrupt, "%s leads to %s, %s to %s", a, at, b, bt)
	}
	return nil
}

// sameBytes compares two readers to their ends.
func sameBytes(name string, a, b io.Reader) error {
	var pa, pb [64 << 10]byte
	for at := int64(0); ; {
		na, ea := io.ReadFull(a, pa[:])
		nb, eb := io.ReadFull(b, pb[:])
		if ea != nil && !ended(ea) { // report the read error rather than the bytes missing because of it
			return ea
		}
		if eb != nil && !ended(eb) {
			return eb
		}
		if !bytes.Equal(pa[:na], pb[:nb]) {
			return status.Errorf(status.Corrupt, "%s differs after byte %d", name, at)
		}
		at += int64(na)
		if ended(ea) && ended(eb) {
			return nil
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// firstFile returns the slash-separated path of the first regular file below dir. It
// prefers a file that a browser shows as text.
func firstFile(dir string) (string, error) {
	var first, text string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if first == "" {
			first = filepath.ToSlash(rel)
		}
		switch strings.ToLower(filepath.Ext(name)) {
		case ".txt", ".md", ".html", ".go":
			text = filepath.ToSlash(rel)
			return fs.SkipAll
		}
		return nil
	})
	if text != "" {
		return text, err
	}
	if err == nil && first == "" {
		err = status.Errorf(status.BadRequest, "%s holds no file", dir)
	}
	return first, err
}
