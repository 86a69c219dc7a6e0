package files

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/node/homefiles"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// lying is an open file that tells another size than it has.
type lying struct {
	*os.File
	less int64
}

type otherSize struct {
	fs.FileInfo
	less int64
}

func (i otherSize) Size() int64 { return i.FileInfo.Size() - i.less }

func (f lying) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	return otherSize{info, f.less}, err
}

// growing returns the items of d. The file log tells a size that is too small for the first so many times that it
// is opened. opened counts them.
func growing(d *Disk, times int, opened *int) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range d.Items() {
			if strings.HasSuffix(it.Path, "/log") {
				open := it.Open
				it.Open = func() (io.ReadCloser, error) {
					f, err := open()
					if *opened++; err != nil || *opened > times {
						return f, err
					}
					return lying{f.(*os.File), 7}, nil
				}
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// names lists the files of a tar.
func names(r io.Reader) (all []string, err error) {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			_, err = io.Copy(io.Discard, tr)
			all = append(all, h.Name)
		}
		if err != nil {
			return all, err
		}
	}
}

// listener is a node that answers with nothing once a tar is whole, and remembers its files.
type listener struct {
	api.Store
	files []string
}

func (l *listener) Keep(context.Context, []b3.Root) ([]bool, error) { return nil, nil }

func (l *listener) Add(
	_ context.Context, r io.Reader, _ api.AddOptions, _ api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		files, err := names(r)
		l.files = files
		yield(api.Added{}, err)
	}
}

// TestGrowingFile: a file that has another size than it told is read again once. Then it is named, or left out
// when bad entries are skipped, with a node, without one, and with a gateway.
func TestGrowingFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 300_000} {
		for _, c := range []struct {
			times int // that the size is wrong
			onBad api.OnBadEntry
			want  status.Outcome
			files string
		}{
			{1, api.RefuseBadEntries, status.OK, "t/a t/log"},
			{2, api.RefuseBadEntries, status.Conflict, ""},
			{2, api.SkipBadEntries, status.OK, "t/a"},
		} {
			dir := filepath.Join(t.TempDir(), "t")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600),
				os.WriteFile(filepath.Join(dir, "log"), make([]byte, size), 0o600)); err != nil {
				t.Fatal(err)
			}
			check := func(how string, d *Disk, opened int, err error, files string) {
				t.Helper()
				left := d.LeftOut()
				switch {
				case status.Of(err) != c.want, err != nil && !strings.Contains(err.Error(), "t/log: it changes"):
					t.Errorf("%s, %d bytes, %d times: %v", how, size, c.times, err)
				case err == nil && files != c.files, opened != 2:
					t.Errorf("%s, %d bytes, %d times: %q were added, and the file was opened %d times",
						how, size, c.times, files,
						opened)
				case (left != nil) != (c.files == "t/a"), left != nil && left.Skipped[0].Path != "t/log":
					t.Errorf("%s, %d bytes, %d times: %+v was left out", how, size, c.times, left)
				}
			}
			var opened int
			d := NewDisk([]string{dir}, c.onBad, homefiles.Own{})
			node := &listener{}
			var got error
			for _, err := range SendItems(t.Context(), node, growing(d, c.times, &opened), api.AddOptions{}, nil) {
				got = err
			}
			check("a node", d, opened, got, strings.Join(node.files, " "))

			opened = 0
			d = NewDisk([]string{dir}, c.onBad, homefiles.Own{})
			var added api.Added
			got = Add(t.Context(), hashStore{}, growing(d, c.times, &opened), Reports{},
				func(_ context.Context, a api.Added) error { added = a; return nil })
			files := map[int64]string{1: "t/a", 2: "t/a t/log"}[added.Files]
			check("no node", d, opened, got, files)

			opened = 0
			d = NewDisk([]string{dir}, c.onBad, homefiles.Own{})
			var sent []string
			send := func(ctx context.Context, r io.Reader) (a api.Added, err error) {
				var tar bytes.Buffer
				if sent, err = names(io.TeeReader(r, &tar)); err != nil {
					return a, err
				}
				if _, err = io.Copy(&tar, r); err != nil {
					return a, err
				}
				err = Add(ctx, hashStore{}, below(uploadName, TarItems(&tar)), Reports{},
					func(_ context.Context, added api.Added) error { a = added; return nil })
				return a, err
			}
			_, got = Upload(t.Context(), growing(d, c.times, &opened), send)
			check("a gateway", d, opened, got, "t/"+strings.Join(sent, " t/"))
		}
	}
}

// TestToldSize: procfs tells that its files are empty, and they are not.
func TestToldSize(t *testing.T) {
	t.Parallel()
	err := WriteTar(io.Discard, DiskItems("/proc/self/status"))
	if status.Of(err) != status.Conflict || !strings.Contains(err.Error(), "status") {
		t.Error(err)
	}
}
