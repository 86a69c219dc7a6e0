//go:build unix

package node_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/node/config"
	"allium/node/files"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// unread is a tar that must not be read.
type unread struct{ t *testing.T }

// Read implements io.Reader.
func (u unread) Read([]byte) (int, error) {
	u.t.Error("the tar was read")
	return 0, io.ErrUnexpectedEOF
}

// TestAddFile passes open files to nodes, on disk and in RAM: they read the file, unless they hold the object of the
// address that comes with it. Files that are none, or cannot be read, are refused.
func TestAddFile(t *testing.T) {
	noLeaks(t)
	data := make([]byte, 9<<20+5)
	_, _ = rand.Read(data)
	path := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for backend, change := range map[string]func(*config.Config){
		"disk": nil, "memory": func(c *config.Config) { c.Store.Backend = "memory" },
	} {
		n := start(t, change)
		addFile := func(f *os.File, name string, root b3.Root) (added api.Added, err error) {
			o := api.AddOptions{Label: "l", File: &api.PassedFile{File: f, Name: name, Root: root}}
			for a, e := range n.api.Add(t.Context(), unread{t}, o, nil) {
				added, err = a, e
			}
			return added, err
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Seek(1000, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		size := int64(len(data))
		want := api.Added{
			Name: "a file", Root: b3.Sum(data), Kind: api.File, Files: 1, Bytes: size, New: size, Hashed: 1,
		}
		got, err := addFile(f, "a file", b3.Sum([]byte("another"))) // which the node does not hold
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", backend, got, err, want)
		}
		want.New, want.Hashed, want.Reused = 0, 0, 1
		if got, err := addFile(f, "a file", want.Root); err != nil || got != want {
			t.Errorf("%s, again: %+v, %v, want %+v", backend, got, err, want)
		}
		if at, err := f.Seek(0, io.SeekCurrent); at != 1000 || err != nil {
			t.Errorf("%s: the offset is %d, %v", backend, at, err)
		}
		compare(t, n, want.Root.String(), path)
		for pin, err := range n.api.Pins(t.Context()) {
			if err != nil || pin.Root != want.Root || pin.Label != "l" || pin.Recursive {
				t.Errorf("%s: %+v, %v", backend, pin, err)
			}
		}
		for name, f := range badInputs(t, path) {
			if _, err := addFile(f, "f", b3.Root{}); status.Of(err) != status.BadRequest {
				t.Errorf("%s: %s: got %v, want bad_request", backend, name, err)
			}
		}
		if _, err := addFile(f, "a/b", b3.Root{}); status.Of(err) != status.BadRequest {
			t.Errorf("%s: a path as name: %v", backend, err)
		}
	}
}

// TestAddTooLarge: a file for which the store has no space is refused before it is read, in whatever way it comes, with
// and without a pin.
func TestAddTooLarge(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("the file system has no sparse files: ", err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := start(t, func(c *config.Config) { c.Store.MaxBytes = 64 << 20 })
	for _, noPin := range []bool{false, true} {
		o := api.AddOptions{NoPin: noPin, Ordered: true, Count: func(n int64) error {
			return fmt.Errorf("%d bytes were read", n)
		}}
		passed := o
		passed.File = &api.PassedFile{File: f, Name: "f"}
		for how, add := range map[string]iter.Seq2[api.Added, error]{
			"passed": n.API().Add(t.Context(), unread{t}, passed, nil),
			"a tar":  files.SendItems(t.Context(), n.API(), files.DiskItems(path), o, nil),
		} {
			var err error
			for _, err = range add {
			}
			if status.Of(err) != status.NoSpace {
				t.Errorf("%s, no pin: %t: %v", how, noPin, err)
			}
		}
	}
}

// badInputs returns files that a node must not add.
func badInputs(t *testing.T, path string) map[string]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	folder, err2 := os.Open(filepath.Dir(path))
	null, err3 := os.Open(os.DevNull)
	writing, err4 := os.OpenFile(path, os.O_WRONLY, 0)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	all := map[string]*os.File{"pipe": r, "directory": folder, "device": null, "write-only": writing}
	t.Cleanup(func() {
		_ = w.Close()
		for _, f := range all {
			_ = f.Close()
		}
	})
	return all
}

// TestSendFileToNode adds files of several sizes as the command does, with and without an open file: all ways tell
// the same.
func TestSendFileToNode(t *testing.T) {
	noLeaks(t)
	n := start(t, nil)
	for _, size := range []int{0, 5, 64 << 10, 1<<20 - 1, 1 << 20, 3<<20 + 7} {
		data := bytes.Repeat([]byte{byte(size % 251), 1, 2}, size/3+1)[:size]
		path := filepath.Join(t.TempDir(), fmt.Sprint(size))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		disk := files.DiskItems(path)
		for i, send := range []func() (api.Added, error){
			func() (added api.Added, err error) {
				for added, err = range files.SendFile(t.Context(), n.api, disk, api.AddOptions{}, nil) {
				}
				return added, err
			},
			func() (added api.Added, err error) {
				for added, err = range files.SendItems(t.Context(), n.api, disk, api.AddOptions{}, nil) {
				}
				return added, err
			},
		} {
			got, err := send()
			want := api.Added{
				Name: fmt.Sprint(size), Root: b3.Sum(data), Kind: api.File, Files: 1, Bytes: int64(size), Hashed: 1,
			}
			if i == 0 {
				want.New = want.Bytes
			}
			if err != nil || got != want {
				t.Errorf("%d bytes: %+v, %v, want %+v", size, got, err, want)
			}
		}
	}
}
