package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestAddProgress: the answer comes while the upload still runs.
func TestAddProgress(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	n.node.add.set(func(ctx context.Context, tar io.Reader, _ api.AddOptions,
		progress api.ProgressFunc) iter.Seq2[api.Added, error] {
		return func(yield func(api.Added, error) bool) {
			buf := make([]byte, 1)
			for i := int64(1); ; i++ {
				if _, err := io.ReadFull(tar, buf); err != nil {
					if !errors.Is(err, io.EOF) {
						yield(api.Added{}, err)
					}
					return
				}
				progress(api.Progress{Bytes: i})
				if !yield(api.Added{Name: string(buf), Kind: api.File}, nil) {
					return
				}
			}
		}
	})
	upload, w := io.Pipe()
	progress := make(chan api.Progress, 100)
	items, stop := iter.Pull2(c.Add(t.Context(), upload, api.AddOptions{}, func(p api.Progress) { progress <- p }))
	defer stop()
	for i := range 3 {
		name := fmt.Sprint(i)
		go func() { _, _ = io.WriteString(w, name) }()
		added, err, ok := items()
		if !ok || err != nil || added.Name != name {
			t.Fatalf("%+v, %v, %v", added, err, ok)
		}
	}
	go func() { // the next item waits until there was progress
		<-progress
		w.Close()
	}()
	if added, err, ok := items(); ok {
		t.Fatalf("%+v, %v", added, err)
	}
}

// TestAddRoots: a client that asks for the addresses of files gets them in order,
// while it still sends; another one gets none.
func TestAddRoots(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	n.node.add.set(func(_ context.Context, tar io.Reader, o api.AddOptions, _ api.ProgressFunc) iter.Seq2[api.Added,
		error] {
		return func(yield func(api.Added, error) bool) {
			buf := make([]byte, 1)
			for {
				if _, err := io.ReadFull(tar, buf); err != nil {
					break
				}
				if o.Roots != nil {
					o.Roots([]b3.Root{b3.Sum(buf), fakeRoot})
				}
			}
			yield(api.Added{Name: fmt.Sprint(o.Roots != nil), Kind: api.File}, nil)
		}
	})
	upload, w := io.Pipe()
	var got []b3.Root
	o := api.AddOptions{Roots: func(roots []b3.Root) {
		got = append(got, roots...)
		go func() { // the next byte is sent once the addresses are there
			if len(roots) != 2 || roots[0] != b3.Sum([]byte("a")) {
				_ = w.Close()
				return
			}
			_, _ = io.WriteString(w, "b")
		}()
	}}
	go func() { _, _ = io.WriteString(w, "a") }()
	added, err := collect(c.Add(t.Context(), upload, o, nil))
	want := []b3.Root{b3.Sum([]byte("a")), fakeRoot, b3.Sum([]byte("b")), fakeRoot}
	if err != nil || len(added) != 1 || added[0].Name != "true" || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, addresses %s, want %s", added, err, got, want)
	}
	added, err = collect(c.Add(t.Context(), strings.NewReader("ab"), api.AddOptions{}, nil))
	if err != nil || len(added) != 1 || added[0].Name != "false" {
		t.Errorf("%+v, %v", added, err)
	}
}

// TestAddFails: an error in the middle of an upload reaches the client, which
// is still sending.
func TestAddFails(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	full := status.Errorf(status.NoSpace, "the disk is full")
	for _, before := range []int{0, 2} {
		n.node.add.set(func(context.Context, io.Reader, api.AddOptions, api.ProgressFunc) iter.Seq2[api.Added, error] {
			return seq(full, []api.Added{{Kind: api.File}}[:min(before, 1)]...)
		})
		for range 20 { // the error must win every race with the upload
			_, err := collect(c.Add(t.Context(), zeros{}, api.AddOptions{}, nil))
			if status.Of(err) != status.NoSpace {
				t.Fatalf("after %d items: %v", before, err)
			}
		}
	}
	testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestAmnesiaIsNoFault: what a node refuses because it keeps nothing, as every
// add asks it, is no warning in its log; what fails is.
func TestAmnesiaIsNoFault(t *testing.T) {
	t.Parallel()
	n := start(t)
	for o, level := range map[status.Outcome]string{status.Amnesia: "DEBUG", status.NoSpace: "WARN"} {
		n.node.get.set(func(context.Context, string) (*api.Stream, error) { return nil, status.Errorf(o, "refused") })
		_, err := connectTo(t, n).Get(t.Context(), "x")
		if status.Of(err) != o {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^.*reason=` + o.String() + ` .*$`)
		testkit.Eventually(t, "the line of the request", func() bool { return line.MatchString(n.log.String()) })
		if got := line.FindString(n.log.String()); !strings.Contains(got, "level="+level) {
			t.Errorf("%s: %s", o, got)
		}
	}
}
