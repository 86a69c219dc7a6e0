package follow

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// version is a version of the test: contents by path. "->t" is a link to t, "x:…" is executable.
type version map[string]string

// source has versions and files, and counts what it was asked for.
type source struct {
	mu      sync.Mutex
	objects map[b3.Root][]byte
	asked   []b3.Root                                 // files
	before  func(ctx context.Context, n int) error    // called before the n-th file is sent
	sent    int                                       // files
	listing func(key string, c api.Change) api.Change // lies
}

func newSource() *source { return &source{objects: map[b3.Root][]byte{}} }

func (s *source) put(_ context.Context, p []byte) (b3.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := b3.Sum(p)
	s.objects[r] = bytes.Clone(p)
	return r, nil
}

func (s *source) get(_ context.Context, r b3.Root) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.objects[r]
	if !ok {
		return nil, status.Errorf(status.NotFound, "%s is not here", r)
	}
	return p, nil
}

// add stores a version and returns its address.
func (s *source) add(t testing.TB, v version) string {
	t.Helper()
	var build func(prefix string) (b3.Root, int64)
	build = func(prefix string) (b3.Root, int64) {
		b := manifest.NewBuilder(s.put)
		names := map[string]bool{}
		for p := range v {
			if rest, ok := strings.CutPrefix(p, prefix); ok {
				name, _, _ := strings.Cut(rest, "/")
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			e := manifest.Entry{Name: name}
			content, file := v[prefix+name]
			switch {
			case !file || content == "/":
				e.Kind = manifest.Directory
				e.Root, e.Size = build(prefix + name + "/")
			case strings.HasPrefix(content, "->"):
				e.Kind, e.Target = manifest.Link, content[2:]
			default:
				e.Executable = strings.HasPrefix(content, "x:")
				e.Root, _ = s.put(t.Context(), []byte(content))
				e.Size = int64(len(content))
			}
			if name == "" {
				continue
			}
			if err := b.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		root, size, err := b.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return root, size
	}
	root, _ := build("")
	return root.String()
}

func (s *source) Diff(ctx context.Context, _, key string) iter.Seq2[api.Change, error] {
	return func(yield func(api.Change, error) bool) {
		root, err := b3.Parse(key)
		if err != nil {
			yield(api.Change{}, err)
			return
		}
		p, err := s.get(ctx, root)
		if err != nil {
			yield(api.Change{}, err)
			return
		}
		stopped := errors.New("stopped")
		top := manifest.Entry{Kind: manifest.Directory, Root: root, Size: int64(len(p))}
		err = manifest.Diff(ctx, s.get, manifest.Entry{}, top, func(path string, _, e *manifest.Entry) error {
			ae := api.Entry{Name: e.Name, Root: e.Root, Size: e.Size, Executable: e.Executable, Target: e.Target}
			ae.Kind = map[manifest.EntryKind]api.Kind{
				manifest.File: api.File, manifest.Directory: api.Directory, manifest.Link: api.Link,
			}[e.Kind]
			c := api.Change{Op: api.AddedEntry, Path: path, New: &ae}
			if s.listing != nil {
				c = s.listing(key, c)
			}
			if !yield(c, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(api.Change{}, err)
		}
	}
}

func (s *source) Files(ctx context.Context, roots []b3.Root) (*api.Stream, error) {
	s.mu.Lock()
	s.asked = append(s.asked, roots...)
	s.mu.Unlock()
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := func() error {
			for _, root := range roots {
				if s.before != nil {
					if err := s.before(ctx, s.sent); err != nil {
						return err
					}
				}
				s.sent++
				p, err := s.get(ctx, root)
				if err != nil {
					return err
				}
				h := &tar.Header{Name: root.Hex(), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(p))}
				if err := tw.WriteHeader(h); err != nil {
					return err
				}
				if _, err := tw.Write(p); err != nil {
					return err
				}
			}
			return tw.Close()
		}()
		_ = w.CloseWithError(err)
	}()
	return &api.Stream{Body: r}, nil
}

// clock is the time of the tests that set files aside.
var clock = time.Date(2026, 11, 25, 19, 15, 0, 0, time.UTC)

// unsynced opens a directory as Open does; the tests need no durable files.
func unsynced(dir, ledgers string) (*Dir, error) {
	d, err := Open(dir, ledgers, false)
	if err == nil {
		d.now = func() time.Time { return clock }
		d.sync = func(*os.File) error { return nil }
	}
	return d, err
}

// opens opens a directory of the test.
func opens(t testing.TB, dir, ledgers string) *Dir {
	t.Helper()
	d, err := unsynced(dir, ledgers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// disk lists a directory as a version, with empty directories as "/".
func disk(t testing.TB, dir string) version {
	t.Helper()
	v := version{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(dir, name)
		switch d.Type() {
		case fs.ModeDir:
			if all, err := os.ReadDir(name); err != nil || len(all) > 0 || path == "." {
				return err
			}
			v[path] = "/"
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			v[path] = "->" + target
			return err
		default:
			p, err := os.ReadFile(name)
			v[path] = string(p)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func isOnDisk(t testing.TB, dir string, want version) {
	t.Helper()
	if got := disk(t, dir); !maps.Equal(got, want) {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}

func update1(t testing.TB, d *Dir, s Source, key string, o Options) Stats {
	t.Helper()
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	stats, err := d.Update(t.Context(), s, key, o)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func write(t testing.TB, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}
